"""Names of the vendor's element types and formats, and their values in messages."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import TypeIs

from opserve.v1 import tensor_pb2
from opserve_client.errors import OpserveError, invalid_argument
from opserve_kernels.operators.convolution_backward.schema import FORMATS
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import NUMPY_DTYPES, DataType, Format, member_of

DTypeLike: TypeAlias = "str | int | DataType | np.dtype[Any] | type[Any]"
FormatLike: TypeAlias = str | int  # a Format is a str

_FROM_NUMPY = {dtype: data_type for data_type, dtype in NUMPY_DTYPES.items()}


def data_type_of(
    dtype: DTypeLike,
    *,
    parameter: str = "dtype",
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> DataType:
    """Returns the element type of a name, a NumPy dtype or a scalar type.

    Args:
        dtype: A name of the vendor ("FLOAT", "ACL_FLOAT") or of NumPy ("float32", "bfloat16"), a
            dtype, a scalar type or the value of aclDataType.
        parameter: Name of the argument, for an error.
        status: The code of an error.

    Raises:
        AclnnError: 161002, opserve has no such element type; TbeError or DeconvError with the
            codes of their families.
    """
    known = member_of(dtype, DataType)
    if known is not None:
        return known
    if not isinstance(dtype, int):
        with suppress(TypeError, ValueError, KeyError):
            return _FROM_NUMPY[np.dtype(dtype).newbyteorder("=")]
    raise _unknown(parameter, str(dtype), DataType.__members__, status=status)


def numpy_dtype(data_type: DataType) -> "np.dtype[Any]":
    """Returns the NumPy dtype of an element type.

    Raises:
        AclnnError: 161002, UNDEFINED has no elements.
    """
    if data_type not in NUMPY_DTYPES:
        raise _unknown("dtype", data_type, DataType.__members__)
    return NUMPY_DTYPES[data_type]


def is_dtype_like(value: object) -> TypeIs[DTypeLike]:
    """Returns whether a value can name an element type; the name may be unknown."""
    return isinstance(value, str | int | np.dtype | type)


def format_named(name: FormatLike) -> Format:
    """Returns the format of a vendor's name, "NCHW" or "ACL_FORMAT_NCHW", or a value of aclFormat.

    Raises:
        AclnnError: 161002, opserve has no such format.
    """
    known = member_of(name, Format)
    if known is None:
        raise _unknown("format", str(name), Format.__members__)
    return known


def format_of_rank(rank: int) -> Format:
    """Returns the default format of a tensor outside a call, the same as in aclnn and torch_npu."""
    return FORMATS.get(rank, Format.ND)


def data_type_on_wire(data_type: DataType) -> tensor_pb2.DataType.ValueType:
    """Returns the value of an element type in a message."""
    if data_type is DataType.UNDEFINED:
        return tensor_pb2.DATA_TYPE_UNSPECIFIED
    return tensor_pb2.DataType.Value(f"DATA_TYPE_{data_type}")


def format_on_wire(format_: Format) -> tensor_pb2.Format.ValueType:
    """Returns the value of a format in a message."""
    if format_ is Format.UNDEFINED:
        return tensor_pb2.FORMAT_UNSPECIFIED
    return tensor_pb2.Format.Value(f"FORMAT_{format_}")


def _unknown(
    parameter: str,
    given: str,
    names: Iterable[str],
    *,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> OpserveError:
    known = ", ".join(name for name in names if name != "UNDEFINED")
    return invalid_argument(parameter, given, known, status=status)
