"""Records of integers: a plan fills them, compiled loops read them by field name.

A record is a NamedTuple whose fields are integers, tuples of a fixed number of integers, and other
records. In a message to a worker it is a row of integers, in the order of its fields.
"""

from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

Record = TypeVar("Record")
Fields = tuple["int | Fields", ...]
"""A record of any type."""


def is_record(kind: object) -> bool:
    """Whether an annotation is a record: a NamedTuple, or a dataclass that loops also write."""
    return isinstance(kind, type) and ("_fields" in vars(kind) or is_dataclass(kind))


def dtype_of(record: type) -> np.dtype[np.void]:
    """The structured dtype of a record, 8 bytes an integer."""
    hints = get_type_hints(record, include_extras=True)
    # All fields have the same alignment, so a row of int64 is the record itself: loops read it in
    # place.
    return np.dtype([(name, *_form_of(hint)) for name, hint in hints.items()])


def encode(record: "Fields") -> tuple[int, ...]:
    """The integers of a record."""
    numbers: list[int] = []
    for field in record:
        numbers += (int(field),) if isinstance(field, int) else encode(field)
    return tuple(numbers)


def decode(record: type[Record], numbers: NDArray[np.int64]) -> Record:
    """The record in a row of integers; its fields are read by name, without a copy."""
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
    # A tuple has its length in its annotation: tuple[int, int], or Annotated for longer ones.
    return np.int64, (len(get_args(hint)),)
