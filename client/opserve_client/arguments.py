"""Validation and conversion of arguments: one function for each kind of value.

An invalid argument of an operator raises the code of its family (161002, E60038 or
DECONV_PARAM_INVALID; `status` is the code), an invalid argument of the runtime 107000. Integers and
booleans may be Python's or NumPy's; a boolean is no integer, and an integer no boolean.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from numbers import Real
from operator import index
from typing import Any, Literal, Protocol, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from opserve.v1 import session_service_pb2 as session_pb2
from opserve_client.data_types import data_type_of
from opserve_client.errors import (
    SessionLost,
    invalid_argument,
    invalid_handle,
    invalid_parameter,
    session_lost,
)
from opserve_kernels.array_like import as_array, bytes_of, is_array
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.user_input import choices

ValueT = TypeVar("ValueT")
HandleT = TypeVar("HandleT", bound="SessionObject")
AccuracyName = Literal["direct", "fast"]
DeterministicLevelName = Literal["off", "deterministic", "strong", "batch"]
DocumentedRulesName = Literal["error", "warn"]
ACCURACIES: Mapping[str, AccuracyName] = {name: name for name in get_args(AccuracyName)}
DOCUMENTED_RULES: Mapping[str, DocumentedRulesName] = {
    name: name for name in get_args(DocumentedRulesName)
}
DETERMINISTIC_LEVELS: Mapping[str, session_pb2.DeterministicLevel.ValueType] = {
    name: session_pb2.DeterministicLevel.Value(f"DETERMINISTIC_LEVEL_{name.upper()}")
    for name in get_args(DeterministicLevelName)
}
LARGEST_UINT32 = 2**32 - 1
LARGEST_UINT64 = 2**64 - 1
INT64 = range(-(2**63), 2**63)
ARRAYS = "an array of numbers: NumPy's, one with __array__ or a CPU __dlpack__, or lists"
_SHOWN = 80


class SessionObject(Protocol):
    """An object of a session: a buffer, tensor, stream, event or executor."""

    @property
    def owner(self) -> object:
        """The calls of its session."""
        ...


class SessionState(Protocol):
    """The state of a session, in its calls: `lost` is set when the session is gone."""

    lost: SessionLost | None


def int64(
    value: object, *, parameter: str, status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID
) -> int:
    """Validates an integer of an operator's call."""
    try:
        return _integer(value)
    except TypeError:
        allowed = "an integer of 64 bits"
        raise invalid_argument(parameter, shown(value), allowed, status=status) from None


def int64s(
    values: object,
    *,
    parameter: str,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
    entry_status: AnyStatus | None = None,
) -> tuple[int, ...]:
    """Validates the integers of an operator's call: an aclIntArray, or a shape.

    Args:
        values: The integers.
        parameter: Name of the argument.
        status: The code of the operator's family for a value of the wrong kind.
        entry_status: The code for an entry of the wrong kind; None means `status`.
    """
    allowed = "a sequence of integers of 64 bits"
    try:
        items = _items(values)
        status = entry_status or status
        return tuple(_integer(value) for value in items)
    except TypeError:
        given = shown(values)
        raise invalid_argument(parameter, given, allowed, status=status) from None


def boolean(
    value: object, *, parameter: str, status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID
) -> bool:
    """Validates a boolean of an operator's call."""
    try:
        return _boolean(value)
    except TypeError:
        allowed = "True or False"
        raise invalid_argument(parameter, shown(value), allowed, status=status) from None


def booleans(
    values: object, *, parameter: str, status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID
) -> tuple[bool, ...]:
    """Validates the booleans of an operator's call: an aclBoolArray."""
    try:
        return tuple(_boolean(value) for value in _items(values))
    except TypeError:
        allowed = "a sequence of True and False"
        raise invalid_argument(parameter, shown(values), allowed, status=status) from None


def string(
    value: object, *, parameter: str, status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID
) -> str:
    """Validates a string of an operator's call."""
    try:
        return _string(value)
    except (TypeError, UnicodeEncodeError):
        raise invalid_argument(parameter, shown(value), "a string", status=status) from None


def members(
    value: object,
    names: Collection[str],
    *,
    parameter: str,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> dict[str, object]:
    """Validates a dict of an operator's call; returns its members that are not None."""
    if not isinstance(value, Mapping):
        allowed = f"a dict with the keys {', '.join(names)}"
        raise invalid_argument(parameter, shown(value), allowed, status=status)
    given = cast("Mapping[object, object]", value)
    unknown = [key for key in given if key not in names]
    if unknown:
        keys = f"the key {shown(unknown[0])}"
        raise invalid_argument(parameter, keys, f"the keys {', '.join(names)}", status=status)
    return {str(key): member for key, member in given.items() if member is not None}


def array(
    value: object,
    *,
    parameter: str,
    allowed: str = ARRAYS,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> NDArray[Any]:
    """Converts an array of any library, or numbers in lists, to a NumPy array of known elements."""
    try:
        found = as_array(value)
    except TypeError as error:
        raise invalid_argument(parameter, str(error), allowed, status=status) from error
    data_type_of(found.dtype, parameter=parameter, status=status)
    return found


def per_dimension(value: object, count: int) -> object:
    """Returns an integer as one entry for each of `count` dimensions, and other values as given."""
    try:
        return (_integer(value),) * count
    except TypeError:
        return value


def unsigned(value: object, *, parameter: str, most: int = LARGEST_UINT64) -> int:
    """Validates a size, offset or handle of the runtime."""
    try:
        return _integer(value, within=range(most + 1))
    except TypeError:
        allowed = f"an integer from 0 to {most}"
        raise invalid_parameter(parameter, shown(value), allowed) from None


def size_to_allocate(value: object) -> int:
    """Validates a size for aclrtMalloc, which has its own code; the service rejects 0."""
    try:
        return _integer(value, within=range(LARGEST_UINT64 + 1))
    except TypeError:
        allowed, status = f"an integer from 1 to {LARGEST_UINT64}", Status.ACL_ERROR_INVALID_PARAM
        raise invalid_parameter("size_bytes", shown(value), allowed, status=status) from None


def milliseconds(value: object, *, parameter: str) -> int | None:
    """Validates a time limit of the runtime in milliseconds; None means the service's limit."""
    try:
        return None if value is None else _integer(value)
    except TypeError:
        allowed = "an integer of 64 bits or None"
        raise invalid_parameter(parameter, shown(value), allowed) from None


def seconds(value: object, *, parameter: str) -> float:
    """Validates a positive time in seconds."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
        raise invalid_parameter(parameter, shown(value), "a positive number of seconds")
    return float(value)


def at_least_one(value: object, *, parameter: str) -> int:
    """Validates a number of repetitions."""
    try:
        return _integer(value, within=range(1, LARGEST_UINT32 + 1))
    except TypeError:
        raise invalid_parameter(parameter, shown(value), "an integer of at least 1") from None


def lasting_ms(value: object, *, parameter: str) -> float:
    """Validates a time in milliseconds, which may be 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < inf:
        raise invalid_parameter(parameter, shown(value), "a number of milliseconds, at least 0")
    return float(value)


def text(value: object, *, parameter: str) -> str:
    """Validates a string of the runtime."""
    if not isinstance(value, str):
        raise invalid_parameter(parameter, shown(value), "a string")
    return value


def choice(value: object, values: Mapping[str, ValueT], *, parameter: str) -> ValueT:
    """Returns the value of one of several names."""
    if not isinstance(value, str) or value not in values:
        raise invalid_parameter(parameter, shown(value), choices(values, str(value)))
    return values[value]


def host_bytes(value: object, *, parameter: str) -> memoryview:
    """Returns the bytes of a contiguous buffer, or of an array's elements in row-major order."""
    try:
        if is_array(value):
            return bytes_of(as_array(value))
        return memoryview(value).cast("B")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  checked here
    except TypeError:
        allowed = "contiguous bytes or an array of numbers"
        raise invalid_parameter(parameter, shown(value), allowed) from None


def session_object(
    value: object, kind: type[HandleT], owner: object, *, parameter: str, hint: str = ""
) -> HandleT:
    """Validates an object of this session; its handle is another object in another session."""
    word = kind.__name__.removeprefix("Async").lower()
    if not isinstance(value, kind):
        given = type(value).__name__
        raise invalid_parameter(parameter, given, f"{_with_article(word)} of this session{hint}")
    check_owner(value, owner, parameter=parameter, word=word)
    return value


def check_owner(value: SessionObject, owner: object, *, parameter: str, word: str) -> None:
    """Rejects an object of another session, or of a lost one.

    The lost session is checked first: after a session is opened again, its old objects have another
    owner too, and the reason is the loss.
    """
    lost: SessionLost | None = getattr(value.owner, "lost", None)
    if lost is not None:
        raise session_lost(ended=lost.ended)
    if value.owner is not owner:
        given = f"{_with_article(word)} of another session"
        raise invalid_handle(parameter, given, "one of this session")


def shown(value: object) -> str:
    """Formats a value for a message: on one line, shortened if it is long."""
    written = " ".join(repr(value).split())
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 3]}..."


def _integer(value: object, *, within: range = INT64) -> int:
    number = index(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  checked here
    if isinstance(value, bool) or number not in within:
        raise TypeError
    return number


def _boolean(value: object) -> bool:
    if type(value) not in {bool, np.bool_}:
        raise TypeError
    return bool(value)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half of a surrogate pair is no text
    return str(value)


def _items(values: object) -> Iterable[object]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise TypeError
    # The caller checks each item: those of an array with several dimensions are arrays.
    return cast("Iterable[object]", values)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
