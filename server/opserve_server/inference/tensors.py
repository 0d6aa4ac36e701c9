"""Tensors of a call on the wire: datatype, shape and bytes, as arrays."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.tensor import DataType
from opserve_server.calls import malformed
from opserve_server.core.one_shot import NUMPY_TYPES
from opserve_server.inference.arguments import ENTRIES
from opserve_server.inference.models import DATATYPES

RANK_LIMIT = 8
"""Dimensions of a tensor, at most."""
OF_DATATYPE: Mapping[str, DataType] = {name: dtype for dtype, name in DATATYPES.items()}
_NUMPY: Mapping[str, np.dtype[Any]] = {
    **{name: NUMPY_TYPES[dtype] for dtype, name in DATATYPES.items()},
    "INT64": np.dtype("<i8"),
    "BOOL": np.dtype(np.bool_),
}

_FLOATS: AbstractSet[type] = frozenset({int, float})
_NUMBERS: Mapping[str, AbstractSet[type]] = {
    **dict.fromkeys(("FP32", "FP16", "FP64"), _FLOATS),
    "INT64": frozenset({int}),
    "BOOL": frozenset({bool}),
}
"""Python's types of the elements of a tensor in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTensor:
    """A tensor in a message.

    Attributes:
        name: Its name.
        datatype: Its datatype.
        shape: Its shape.
        data: Its elements, row-major and little-endian.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


def array_of(tensor: WireTensor) -> NDArray[Any]:
    """The elements as an array over the bytes of the message.

    Raises:
        InvalidArgument: 100000, the datatype is unknown, or shape and bytes do not agree.
    """
    dtype = _NUMPY.get(tensor.datatype)
    if dtype is None:
        raise malformed(tensor.name, given=tensor.datatype[:64], allowed=", ".join(_NUMPY))
    if len(tensor.shape) > RANK_LIMIT or min(tensor.shape, default=0) < 0:
        shown = str(list(tensor.shape[: RANK_LIMIT + 1]))
        allowed = f"at most {RANK_LIMIT} sizes of at least 0"
        raise malformed(tensor.name, given=shown, allowed=allowed)
    size_bytes = prod(tensor.shape) * dtype.itemsize
    if len(tensor.data) != size_bytes:
        allowed = f"{size_bytes} bytes: {tensor.datatype} of shape {list(tensor.shape)}"
        raise malformed(tensor.name, given=f"{len(tensor.data)} bytes", allowed=allowed)
    try:
        return np.frombuffer(tensor.data, dtype).reshape(tensor.shape)
    except ValueError as error:  # sizes that NumPy cannot hold beside a 0
        shown = str(list(tensor.shape))
        raise malformed(tensor.name, given=shown, allowed="NumPy's shapes") from error


def numbers_of(tensor: WireTensor) -> list[float]:
    """The elements of a tensor of floats as numbers."""
    if OF_DATATYPE[tensor.datatype] is DataType.BF16:  # which NumPy lacks: half of a float
        array = (np.frombuffer(tensor.data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        array = np.frombuffer(tensor.data, _NUMPY[tensor.datatype])
    numbers: list[float] = array.tolist()
    return numbers


def bytes_of(name: str, datatype: str, numbers: list[object]) -> bytes:
    """The bytes of a tensor whose elements are numbers.

    Args:
        name: Name of the tensor.
        datatype: Its datatype.
        numbers: The elements: few, as each is checked.

    Raises:
        InvalidArgument: 100000, the datatype has no numbers, or an element is none of it.
    """
    if datatype not in _NUMBERS:
        allowed = f"{', '.join(_NUMBERS)} as numbers, or binary data"
        raise malformed(f"{name}.datatype", given=datatype[:64], allowed=allowed)
    kinds = {type(number) for number in numbers}
    if not kinds <= _NUMBERS[datatype]:
        given = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise malformed(f"{name}.data", given=given, allowed=f"numbers of {datatype}")
    try:
        with np.errstate(over="ignore"):  # beyond the range is infinite
            return np.array(numbers, _NUMPY[datatype]).tobytes()
    except OverflowError:
        raise malformed(f"{name}.data", given="a larger integer", allowed=datatype) from None


def attribute_value(tensor: WireTensor, kind: str) -> object:
    """The value of an attribute that is given as a tensor."""
    array = array_of(tensor)
    if array.size > ENTRIES:
        raise malformed(tensor.name, given=f"{array.size} elements", allowed=f"at most {ENTRIES}")
    entries: list[object] = array.reshape(-1).tolist()
    return entries[0] if kind in {"integer", "boolean"} and len(entries) == 1 else entries
