"""Checks that operators share: a value is given, a dtype is floating, integers are in range."""

from collections.abc import Sequence
from typing import TypeVar

from opserve_kernels.errors import invalid_argument, null_argument
from opserve_kernels.number_formats import FLOATING_TYPES
from opserve_kernels.tensor import Tensor

Value = TypeVar("Value")


def required(parameter: str, value: Value | None) -> Value:
    """The value; refuses a missing one (161001)."""
    if value is None:
        raise null_argument(parameter)
    return value


def check_dtype(parameter: str, tensor: Tensor) -> None:
    """Refuses a dtype that is not FLOAT, FLOAT16 or BF16 (161002)."""
    if tensor.dtype not in FLOATING_TYPES:
        raise invalid_argument(
            parameter, given=f"dtype {tensor.dtype}", allowed="dtypes FLOAT, FLOAT16, BF16"
        )


def check_length(parameter: str, values: Sequence[int], *, allowed: int) -> None:
    """Refuses a row of integers of another length (161002)."""
    if len(values) != allowed:
        raise invalid_argument(
            parameter, given=f"{len(values)} values {list(values)}", allowed=f"{allowed} values"
        )


def check_range(
    parameter: str, values: Sequence[int], *, least: int, most: int | None = None
) -> None:
    """Refuses a value outside [least, most] (161002)."""
    if any(value < least or (most is not None and value > most) for value in values):
        allowed = f"values >= {least}" if most is None else f"values in [{least}, {most}]"
        raise invalid_argument(parameter, given=list(values), allowed=allowed)
