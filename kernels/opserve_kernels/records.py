"""Records of integers: a plan fills them, compiled loops read them by field name.

A record is a NamedTuple whose fields are integers, tuples of a fixed number of integers, and other
records. In a message to a worker it is a row of integers, in the order of its fields.
"""

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import islice
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
    # All fields have the same alignment, so a row of int64 is the record itself: loops read it in
    # place.
    return np.dtype([(name, *_form_of(part)) for name, part in _parts_of(record)])


def encode(record: "Fields") -> tuple[int, ...]:
    """The integers of a record."""
    numbers: list[int] = []
    for field in record:
        numbers += (int(field),) if isinstance(field, int) else encode(field)
    return tuple(numbers)


def decode(record: type[Record], numbers: NDArray[np.int64]) -> Record:
    """The record in a row of integers, a copy: the inverse of `encode`."""
    # Not a view as NumPy's record: that takes 2 us for each field that is read, and numbers that
    # are slower than Python's to compute with and to pass to loops. Python runs units one by one.
    found: Record = _read(record, iter(numbers.tolist()))
    return found


def _form_of(part: type | int) -> tuple[DTypeLike] | tuple[DTypeLike, tuple[int]]:
    if isinstance(part, int):
        return np.int64, (part,)
    return (np.int64 if part is int else dtype_of(part),)


def _read(record: Any, numbers: Iterator[int]) -> Any:  # noqa: ANN401  # a type, a record
    fields: list[Any] = []
    for _, part in _parts_of(record):
        if part is int:
            fields.append(next(numbers))
        elif isinstance(part, int):
            fields.append(tuple(islice(numbers, part)))
        else:
            fields.append(_read(part, numbers))
    return record(*fields)


@cache
def _parts_of(record: type) -> tuple[tuple[str, type | int], ...]:
    """The fields of a record by name: int, another record, or the length of a tuple."""
    hints = get_type_hints(record, include_extras=True)
    return tuple((name, _part_of(hint)) for name, hint in hints.items())


def _part_of(hint: Any) -> type | int:  # noqa: ANN401  # an annotation
    if isinstance(hint, type):
        return hint
    # A tuple has its length in its annotation: tuple[int, int], or Annotated for longer ones.
    parts = get_args(hint)
    length: int = parts[1] if get_origin(hint) is Annotated else len(parts)
    return length
