"""Records of integers that a plan fills and compiled loops read by the names of their fields.

A record is a NamedTuple whose fields are integers, tuples of so many integers, and other records.
On its way to a worker it is a row of integers, in the order of its fields.
"""

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike

from opserve_kernels.views import VIEW_LENGTH

ViewNumbers = Annotated[tuple[int, ...], VIEW_LENGTH]
"""A view of opserve_kernels.views as a field; loops slice it, `view[:]`, to pass it on."""

Fields = tuple["int | Fields", ...]
"""A record, whichever it is."""


def is_record(kind: object) -> bool:
    """Whether an annotation names a record."""
    return isinstance(kind, type) and "_fields" in vars(kind)


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


def _form_of(hint: Any) -> tuple[DTypeLike] | tuple[DTypeLike, tuple[int]]:  # noqa: ANN401  # an annotation
    if hint is int:
        return (np.int64,)
    if is_record(hint):
        return (dtype_of(hint),)
    if get_origin(hint) is Annotated:
        _, length = get_args(hint)
        return np.int64, (length,)
    return np.int64, (len(get_args(hint)),)
