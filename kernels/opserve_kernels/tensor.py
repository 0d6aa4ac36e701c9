"""A tensor as aclCreateTensor describes it: a strided view of elements in a buffer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from math import gcd, prod
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from typing_extensions import override

from opserve_kernels.errors import invalid_argument

RANK_MAXIMUM = 8
_Acl = TypeVar("_Acl", "DataType", "Format")
BYTES_MAXIMUM = 2**63 - 1
"""Bytes of a tensor, at most: 64 bits count no more."""


def member_of(value: object, kind: type[_Acl]) -> _Acl | None:
    """A data type or format by its name, the vendor's spelling or the vendor's number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return next(
        (member for member in kind if value in (member.name, member.acl_name, member.acl_number)),
        None,
    )


class DataType(StrEnum):
    """aclDataType by name; `acl_number` is the vendor's value.

    DataType("ACL_FLOAT") and DataType(0) are DataType.FLOAT.
    """

    UNDEFINED = "UNDEFINED"
    FLOAT = "FLOAT"
    FLOAT16 = "FLOAT16"
    INT8 = "INT8"
    INT32 = "INT32"
    UINT8 = "UINT8"
    INT16 = "INT16"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    INT64 = "INT64"
    UINT64 = "UINT64"
    DOUBLE = "DOUBLE"
    BOOL = "BOOL"
    BF16 = "BF16"

    @override
    @classmethod
    def _missing_(cls, value: object) -> "DataType | None":
        return member_of(value, cls)

    @property
    def acl_name(self) -> str:
        """The name in aclDataType."""
        return "ACL_DT_UNDEFINED" if self is DataType.UNDEFINED else f"ACL_{self}"

    @property
    def acl_number(self) -> int:
        """The value of aclDataType."""
        return _DATA_TYPE_NUMBERS[self]

    @property
    def size_bytes(self) -> int:
        """Bytes of one element; 0 for UNDEFINED."""
        return NUMPY_DTYPES[self].itemsize if self in NUMPY_DTYPES else 0


_DATA_TYPE_NUMBERS = {
    DataType.UNDEFINED: -1,
    DataType.FLOAT: 0,
    DataType.FLOAT16: 1,
    DataType.INT8: 2,
    DataType.INT32: 3,
    DataType.UINT8: 4,
    DataType.INT16: 6,
    DataType.UINT16: 7,
    DataType.UINT32: 8,
    DataType.INT64: 9,
    DataType.UINT64: 10,
    DataType.DOUBLE: 11,
    DataType.BOOL: 12,
    DataType.BF16: 27,
}
NUMPY_DTYPES: Mapping[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.BF16: np.dtype(ml_dtypes.bfloat16),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.BOOL: np.dtype(np.bool_),
}
"""The NumPy dtypes of elements; UNDEFINED has none."""
SPELLED: Mapping[str, DataType] = {
    NUMPY_DTYPES[dtype].name: dtype
    for dtype in (DataType.FLOAT16, DataType.FLOAT, DataType.BF16, DataType.DOUBLE)
}
"""The floating dtypes by their names in NumPy, which the TBE DSL uses too."""


class Format(StrEnum):
    """aclFormat by name; `acl_number` is the vendor's value.

    Format("ACL_FORMAT_NCHW") and Format(0) are Format.NCHW.
    """

    UNDEFINED = "UNDEFINED"
    NCHW = "NCHW"
    NHWC = "NHWC"
    ND = "ND"
    NC1HWC0 = "NC1HWC0"
    FRACTAL_Z = "FRACTAL_Z"
    HWCN = "HWCN"
    NDHWC = "NDHWC"
    FRACTAL_NZ = "FRACTAL_NZ"
    NCDHW = "NCDHW"
    NDC1HWC0 = "NDC1HWC0"
    FRACTAL_Z_3D = "FRACTAL_Z_3D"
    NC = "NC"
    NCL = "NCL"

    @override
    @classmethod
    def _missing_(cls, value: object) -> "Format | None":
        return member_of(value, cls)

    @property
    def acl_name(self) -> str:
        """The name in aclFormat."""
        return "ACL_FRACTAL_Z_3D" if self is Format.FRACTAL_Z_3D else f"ACL_FORMAT_{self}"

    @property
    def acl_number(self) -> int:
        """The value of aclFormat."""
        return _FORMATS[self]


_FORMATS = {
    Format.UNDEFINED: -1,
    Format.NCHW: 0,
    Format.NHWC: 1,
    Format.ND: 2,
    Format.NC1HWC0: 3,
    Format.FRACTAL_Z: 4,
    Format.HWCN: 16,
    Format.NDHWC: 27,
    Format.FRACTAL_NZ: 29,
    Format.NCDHW: 30,
    Format.NDC1HWC0: 32,
    Format.FRACTAL_Z_3D: 33,
    Format.NC: 35,
    Format.NCL: 47,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """The arguments of aclCreateTensor.

    Attributes:
        shape: View dimensions, each at least 0.
        dtype: Element type.
        format: Meaning of the dimensions.
        strides: Elements between neighbours, by dimension; None means contiguous.
        offset: Elements from the start of the buffer to the first element of the view.
        storage_shape: Dimensions of the storage that holds the view; None means the whole buffer.
        buffer: Handle of the buffer that holds the elements; 0 is the null pointer.
    """

    shape: tuple[int, ...]
    dtype: DataType
    format: Format = Format.ND
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage_shape: tuple[int, ...] | None = None
    buffer: int = 0

    @property
    def rank(self) -> int:
        """Number of view dimensions."""
        return len(self.shape)

    @property
    def element_count(self) -> int:
        """Elements of the view."""
        return prod(self.shape)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements, contiguous ones where none were given."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        expected = contiguous_strides(self.shape)
        return self.element_count == 0 or all(
            size == 1 or given == wanted
            for size, given, wanted in zip(self.shape, self.element_strides, expected, strict=True)
        )

    @property
    def repeats_elements(self) -> bool:
        """Whether steps along one axis, or along two of them, reach an element again.

        Steps along three or more axes that reach one only together are not considered, so a tensor
        with a place for each element never counts as repeating.
        """
        axes = [axis for axis in zip(self.shape, self.element_strides, strict=True) if axis[0] > 1]
        return self.element_count > 0 and (
            any(stride == 0 for _, stride in axes)
            or any(
                other_stride // gcd(stride, other_stride) < size
                and stride // gcd(stride, other_stride) < other_size
                for (size, stride), (other_size, other_stride) in combinations(axes, 2)
            )
        )

    @property
    def end(self) -> int:
        """Element index just past the last element of the view, from the start of the buffer."""
        if self.element_count == 0:
            return self.offset
        steps = zip(self.shape, self.element_strides, strict=True)
        return self.offset + 1 + sum((size - 1) * stride for size, stride in steps)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def sliced(tensor: Tensor, axis: int, first: int, last: int) -> Tensor:
    """The view of the elements first .. last-1 along an axis."""
    shape, strides = list(tensor.shape), tensor.element_strides
    shape[axis] = last - first
    offset = tensor.offset + first * strides[axis]
    return replace(tensor, shape=tuple(shape), strides=strides, offset=offset)


def permuted(tensor: Tensor, axes: tuple[int, ...], tag: Format) -> Tensor:
    """The same elements with the axes in another order, in a format that has this order."""
    strides = tensor.element_strides
    return replace(
        tensor,
        shape=tuple(tensor.shape[axis] for axis in axes),
        strides=tuple(strides[axis] for axis in axes),
        format=tag,
    )


def check_tensor(name: str, tensor: Tensor, *, buffer_bytes: int | None) -> None:
    """Rejects a tensor that is not well formed or leaves its storage (161002).

    Real hardware checks none of this and reads or writes out of bounds.

    Args:
        name: The parameter, for the message.
        tensor: The view.
        buffer_bytes: Size of its buffer; None without one.
    """
    for part, sizes in (("shape", tensor.shape), ("storage_shape", tensor.storage_shape or ())):
        if len(sizes) > RANK_MAXIMUM:
            raise invalid_argument(
                f"{name}.{part}",
                given=f"{len(sizes)} dimensions",
                allowed=f"at most {RANK_MAXIMUM}",
            )
    if any(size < 0 for size in tensor.shape):
        raise invalid_argument(f"{name}.shape", given=list(tensor.shape), allowed="sizes >= 0")
    if tensor.offset < 0:
        raise invalid_argument(f"{name}.offset", given=tensor.offset, allowed="offset >= 0")
    _check_strides(name, tensor)
    storage = _storage_elements(name, tensor, buffer_bytes)
    if tensor.end > BYTES_MAXIMUM // max(tensor.dtype.size_bytes, 1):
        raise invalid_argument(
            f"{name}.shape", given=list(tensor.shape), allowed="at most 2^63-1 bytes in all"
        )
    if storage is not None and tensor.element_count and tensor.end > storage:
        raise invalid_argument(
            f"{name}.strides",
            given=f"a view that ends at element {tensor.end}",
            allowed=f"views inside the storage of {storage} elements",
        )


def _check_strides(name: str, tensor: Tensor) -> None:
    if tensor.strides is None:
        return
    if len(tensor.strides) != tensor.rank:
        raise invalid_argument(
            f"{name}.strides",
            given=f"{len(tensor.strides)} strides",
            allowed=f"one for each of {tensor.rank} dimensions",
        )
    if any(stride < 0 for stride in tensor.strides):
        raise invalid_argument(
            f"{name}.strides", given=list(tensor.strides), allowed="strides >= 0"
        )


def _storage_elements(name: str, tensor: Tensor, buffer_bytes: int | None) -> int | None:
    size = tensor.dtype.size_bytes
    held = None if buffer_bytes is None or size == 0 else buffer_bytes // size
    if tensor.storage_shape is None:
        return held
    if any(extent < 0 for extent in tensor.storage_shape):
        raise invalid_argument(
            f"{name}.storage_shape", given=list(tensor.storage_shape), allowed="sizes >= 0"
        )
    elements = prod(tensor.storage_shape)
    if held is not None and elements > held:
        raise invalid_argument(
            f"{name}.storage_shape",
            given=f"{elements} elements",
            allowed=f"at most the {held} elements of its buffer",
        )
    return elements
