"""A tensor as aclCreateTensor describes it, and how its elements lie in a buffer's bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opserve.v1 import tensor_pb2
from opserve_client.arguments import unsigned
from opserve_client.data_types import DataType, DTypeLike, Format, data_type_of
from opserve_client.errors import invalid_argument

Array: TypeAlias = NDArray[Any]
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A strided view of elements in a buffer.

    Attributes:
        shape: View dimensions.
        dtype: Element type.
        format: Meaning of the dimensions.
        strides: Elements between neighbours, by dimension; None means contiguous.
        offset: Elements from the start of the buffer to the first element of the view.
        storage_shape: Dimensions of the storage that the view lies in; None means the whole buffer.
        buffer: Handle of the buffer; 0 is the null pointer.
        format_follows_call: Whether the format is a default, in whose place a call takes that of
            its arrays.
    """

    shape: tuple[int, ...]
    dtype: DataType
    format: Format
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage_shape: tuple[int, ...] | None = None
    buffer: int = 0
    format_follows_call: bool = False

    @property
    def start_bytes(self) -> int:
        """Bytes from the start of the buffer to the first element.

        Raises:
            AclrtError: 107000, there can be no such place.
        """
        return unsigned(self.offset * self.dtype.numpy.itemsize, parameter="offset")

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element of the view to the end of its last one.

        Raises:
            AclnnError: 161002, dimensions or strides below 0, or strides that are not as many as
                dimensions: the service alone may look at such a tensor.
        """
        if min(self.shape, default=0) < 0:
            raise invalid_argument("shape", str(list(self.shape)), "dimensions of at least 0")
        if self.strides is not None and (
            len(self.strides) != len(self.shape) or min(self.strides, default=0) < 0
        ):
            allowed = f"{len(self.shape)} strides of at least 0"
            raise invalid_argument("strides", str(list(self.strides)), allowed)
        if 0 in self.shape:
            return 0
        if self.strides is None:
            return prod(self.shape) * self.dtype.numpy.itemsize
        steps = sum(
            (size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)
        )
        return (1 + steps) * self.dtype.numpy.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the span holds the elements in row-major order and nothing else."""
        return self.strides is None

    def view(self, span: bytearray | memoryview) -> Array:
        """The elements as an array over the bytes of the span."""
        dtype = self.dtype.numpy
        strides = self.strides and tuple(stride * dtype.itemsize for stride in self.strides)
        return np.ndarray(self.shape, dtype, buffer=span, strides=strides)

    def to_message(self) -> tensor_pb2.Tensor:
        """The tensor as it travels."""
        return tensor_pb2.Tensor(
            shape=self.shape,
            dtype=self.dtype.proto,
            format=self.format.proto,
            strides=int64_array(self.strides),
            offset=self.offset,
            storage_shape=int64_array(self.storage_shape),
            buffer=self.buffer,
        )


@runtime_checkable
class DeviceTensor(Protocol):
    """A tensor in device memory: the client's Tensor or AsyncTensor."""

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype, format and place."""
        ...

    @property
    def owner(self) -> object:
        """The calls of its session."""
        ...


@runtime_checkable
class DeviceBuffer(Protocol):
    """Device memory: the client's Buffer or AsyncBuffer."""

    @property
    def handle(self) -> int:
        """Its number within the session."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def owner(self) -> object:
        """The calls of its session."""
        ...


TensorArgument: TypeAlias = "Array | DeviceTensor | None"
OutputArgument: TypeAlias = "TensorArgument | DTypeLike"


def spec_of(value: TensorArgument, *, array_format: Callable[[int], Format]) -> TensorSpec | None:
    """The tensor that an argument is or becomes on a device; None for a null pointer."""
    if isinstance(value, np.ndarray):
        return TensorSpec(
            shape=value.shape,
            dtype=data_type_of(value.dtype),
            format=array_format(value.ndim),
        )
    if value is None or not value.spec.format_follows_call:
        return None if value is None else value.spec
    return replace(value.spec, format=array_format(len(value.spec.shape)))


def inferred_spec(
    shape: tuple[int, ...],
    dtype: DataType,
    format: Format,  # noqa: A002  the vendor's word
) -> TensorSpec | None:
    """The tensor that arguments imply; None where they imply sizes that no message can carry."""
    if all(size in _INT64 for size in shape):
        return TensorSpec(shape=shape, dtype=dtype, format=format)
    return None


def bytes_of(array: Array) -> memoryview:
    """The elements of an array in row-major order, copied only where they lie otherwise."""
    native = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    return native.reshape(-1).view(np.uint8).data


def int64_array(values: Sequence[int] | None) -> tensor_pb2.Int64Array | None:
    """An aclIntArray; None for a null pointer."""
    return None if values is None else tensor_pb2.Int64Array(values=values)
