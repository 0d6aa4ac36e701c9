"""The vendor's element types and formats, and how they meet NumPy's."""

from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import ml_dtypes
import numpy as np
from typing_extensions import TypeIs

from opserve.v1 import tensor_pb2
from opserve_client.errors import OPSERVE, OpserveError, invalid_argument


class DataType(StrEnum):
    """Element type of a tensor: aclDataType by name."""

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

    @property
    def numpy(self) -> "np.dtype[Any]":
        """The NumPy dtype of the elements; UNDEFINED has none (161002)."""
        if self not in _NUMPY:
            raise _unknown("dtype", self, DataType.__members__)
        return _NUMPY[self]

    @property
    def proto(self) -> "tensor_pb2.DataType.ValueType":
        """The value on the wire."""
        if self is DataType.UNDEFINED:
            return tensor_pb2.DATA_TYPE_UNSPECIFIED
        return tensor_pb2.DataType.Value(f"DATA_TYPE_{self}")

    @property
    def acl_name(self) -> str:
        """The name in aclDataType."""
        return "ACL_DT_UNDEFINED" if self is DataType.UNDEFINED else f"ACL_{self}"


class Format(StrEnum):
    """Meaning of a tensor's dimensions: aclFormat by name."""

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

    @property
    def proto(self) -> "tensor_pb2.Format.ValueType":
        """The value on the wire."""
        if self is Format.UNDEFINED:
            return tensor_pb2.FORMAT_UNSPECIFIED
        return tensor_pb2.Format.Value(f"FORMAT_{self}")

    @property
    def acl_name(self) -> str:
        """The name in aclFormat."""
        return "ACL_FRACTAL_Z_3D" if self is Format.FRACTAL_Z_3D else f"ACL_FORMAT_{self}"


DTypeLike: TypeAlias = "str | int | DataType | np.dtype[Any] | type[Any]"
FormatLike: TypeAlias = str | int  # a Format is a str
_Named = TypeVar("_Named", DataType, Format)

_NUMPY: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT32: np.dtype(np.int32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT16: np.dtype(np.int16),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.INT64: np.dtype(np.int64),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.BOOL: np.dtype(np.bool_),
    DataType.BF16: np.dtype(ml_dtypes.bfloat16),
}
_FROM_NUMPY = {dtype: data_type for data_type, dtype in _NUMPY.items()}
_FORMAT_OF_RANK = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
_TBE_RESULTS = {
    "float16": DataType.FLOAT16,
    "float32": DataType.FLOAT,
    "bfloat16": DataType.BF16,
    "float64": DataType.DOUBLE,
}
_TBE_FORMAT_OF_RANK = {4: Format.FRACTAL_Z, 5: Format.NC1HWC0}


def data_type_of(dtype: DTypeLike, *, domain: str = OPSERVE) -> DataType:
    """The element type that a name, a NumPy dtype or a scalar type stands for.

    Args:
        dtype: A name of the vendor ("FLOAT", "ACL_FLOAT") or of NumPy ("float32", "bfloat16"), a
            dtype, a scalar type or the value of aclDataType.
        domain: Family of the operator that it is for.

    Raises:
        AclnnError: 161002, opserve knows no such element type; TbeError or DeconvError in their
            domains.
    """
    known = _of_the_vendor(dtype, DataType)
    if known is not None:
        return known
    if not isinstance(dtype, int):
        with suppress(TypeError, ValueError, KeyError):
            return _FROM_NUMPY[np.dtype(dtype).newbyteorder("=")]
    raise _unknown("dtype", str(dtype), DataType.__members__, domain=domain)


def tbe_result_type(res_dtype: str) -> DataType | None:
    """The dtype of a result of the TBE DSL that res_dtype asks for; None where it names none."""
    return _TBE_RESULTS.get(res_dtype)


def is_dtype_like(value: object) -> TypeIs[DTypeLike]:
    """Whether a value names an element type, if perhaps none that there is."""
    return isinstance(value, str | int | np.dtype | type)


def format_named(name: FormatLike) -> Format:
    """The format of a name of the vendor, "NCHW" or "ACL_FORMAT_NCHW", or of a value of aclFormat.

    Raises:
        AclnnError: 161002, opserve knows no such format.
    """
    known = _of_the_vendor(name, Format)
    if known is None:
        raise _unknown("format", str(name), Format.__members__)
    return known


def _of_the_vendor(value: object, kind: type[_Named]) -> _Named | None:
    """The member of a name or a number of the vendor; on the wire numbers are greater by one."""
    if isinstance(value, str):
        return next((one for one in kind if value in (one.name, one.acl_name)), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return next((one for one in kind if one.proto == value + 1), None)
    return None


def format_of_rank(rank: int) -> Format:
    """The format that torch_npu gives a tensor of that rank: NCL, NCHW, NCDHW, else ND."""
    return _FORMAT_OF_RANK.get(rank, Format.ND)


def format_for_rank(rank: int, *, named: FormatLike | None) -> Format:
    """The format that is named, or else that of the rank."""
    return format_of_rank(rank) if named is None else format_named(named)


def format_of_tbe(rank: int) -> Format:
    """The format of an array argument of the TBE DSL: FRACTAL_Z, NC1HWC0, else ND."""
    return _TBE_FORMAT_OF_RANK.get(rank, Format.ND)


def _unknown(
    parameter: str, given: str, names: Iterable[str], *, domain: str = OPSERVE
) -> OpserveError:
    known = ", ".join(name for name in names if name != "UNDEFINED")
    return invalid_argument(parameter, given, known, domain=domain)
