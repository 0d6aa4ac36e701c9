"""Records of integers that a plan fills and compiled loops read by the names of their fields.

A record is a NamedTuple whose fields are integers, tuples of so many integers, and other records.
On its way to a worker it is a row of integers, in the order of its fields.
"""

from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

Record = TypeVar("Record")
Fields = tuple["int | Fields", ...]
"""A record, whichever it is."""


def is_record(kind: object) -> bool:
    """Whether an annotation names a record: a NamedTuple, or a dataclass where loops also write."""
    return isinstance(kind, type) and ("_fields" in vars(kind) or is_dataclass(kind))


def dtype_of(record: type) -> np.dtype[np.void]:
    """The structured dtype of a record, 8 bytes an integer."""
    hints = get_type_hints(record, include_extras=True)
    return np.dtype([(name, *_form_of(hint)) for name, hint in hints.items()])


def encode(record: "Fields") -> tuple[int, ...]:
    """The integers of a record."""
    numbers: list[int] = []
    for field in record:
        numbers += (int(field),) if isinstance(field, int) else encode(field)
    return tuple(numbers)


def decode(record: type[Record], numbers: NDArray[np.int64]) -> Record:
    """The record that a row of integers is, its fields read by name where they lie."""
    found: Record = numbers.view(np.dtype((np.record, dtype_of(record))))[0]
    return found


def _form_of(hint: Any) -> tuple[DTypeLike] | tuple[DTypeLike, tuple[int]]:  # noqa: ANN401  # an annotation
    if hint is int:
        return (np.int64,)
    if is_record(hint):
        return (dtype_of(hint),)
    if get_origin(hint) is Annotated:
        _, length = get_args(hint)
        return np.int64, (length,)
    return np.int64, (len(get_args(hint)),)
