"""Checks that operators share: a value is given, a dtype is supported, integers are in range."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from opserve_kernels.errors import invalid_argument, null_argument
from opserve_kernels.operator import Support
from opserve_kernels.tensor import Tensor

Value = TypeVar("Value")


def required(parameter: str, value: Value | None) -> Value:
    """The value; refuses a missing one (161001)."""
    if value is None:
        raise null_argument(parameter)
    return value


def check_dtype(
    parameter: str, tensor: Tensor, *, support: Mapping[str, Support], profile: str
) -> None:
    """Refuses a dtype that a profile does not have, and names those that do (161002)."""
    if tensor.dtype in support[profile].dtypes:
        return
    allowed = f"dtypes {', '.join(support[profile].dtypes)} on {profile}"
    able = [name for name, row in support.items() if tensor.dtype in row.dtypes]
    raise invalid_argument(
        parameter,
        given=f"dtype {tensor.dtype}",
        allowed=f"{allowed}; {tensor.dtype} on {', '.join(able)}" if able else allowed,
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
