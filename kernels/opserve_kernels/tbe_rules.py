"""Checks that both operators of the TBE DSL share; each is told the code to refuse with."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operator import Limit, Plan
from opserve_kernels.status import AnyStatus, TbeStatus
from opserve_kernels.tensor import DataType, Format, Tensor

Value = TypeVar("Value")

BLOCK = 16  # C0 and N0 of every dtype that is supported
SPELLED: Mapping[str, DataType] = {
    "float16": DataType.FLOAT16,
    "float32": DataType.FLOAT,
    "bfloat16": DataType.BF16,
    "float64": DataType.DOUBLE,
}
"""The dtypes that res_dtype may name, as Python spells them."""
_MOST_BYTES = 2**63 - 1


def required(parameter: str, value: Value | None) -> Value:
    """The value; refuses a missing one (E60038)."""
    if value is None:
        raise invalid_argument(
            parameter, given="nothing", allowed="a value", status=TbeStatus.E60038
        )
    return value


def check_supported(
    parameter: str, tensor: Tensor, dtypes: Sequence[DataType], *, status: AnyStatus
) -> None:
    """Refuses a dtype that the profile does not support."""
    if tensor.dtype not in dtypes:
        raise invalid_argument(
            parameter,
            given=f"dtype {tensor.dtype}",
            allowed=f"dtype {' or '.join(dtypes)}",
            status=status,
        )


def check_result(spelling: str, allowed: Sequence[str], *, status: AnyStatus) -> None:
    """Refuses a res_dtype that the profile does not support."""
    if spelling not in allowed:
        raise invalid_argument(
            "para_dict.res_dtype", given=spelling, allowed=" or ".join(allowed), status=status
        )


def check_rank(parameter: str, tensor: Tensor, rank: int, *, status: AnyStatus) -> None:
    """Refuses another number of dimensions."""
    if tensor.rank != rank:
        raise invalid_argument(
            parameter,
            given=f"shape {list(tensor.shape)}",
            allowed=f"{rank} dimensions",
            status=status,
        )


def check_format(parameter: str, tensor: Tensor, tag: Format, *, status: AnyStatus) -> None:
    """Refuses a format that is neither the tensor's nor ND, which says nothing."""
    if tensor.format not in {tag, Format.ND}:
        raise invalid_argument(
            parameter,
            given=f"format {tensor.format}",
            allowed=f"format {tag} or {Format.ND}",
            status=status,
        )


def check_length(parameter: str, values: Sequence[int], length: int, *, status: AnyStatus) -> None:
    """Refuses a row of integers of another length."""
    if len(values) != length:
        raise invalid_argument(
            parameter,
            given=f"{len(values)} values {list(values)}",
            allowed=f"{length} values",
            status=status,
        )


def check_least(parameter: str, values: Sequence[int], least: int, *, status: AnyStatus) -> None:
    """Refuses a value below the least."""
    if min(values) < least:
        raise invalid_argument(
            parameter, given=list(values), allowed=f"values >= {least}", status=status
        )


def check_limit(limit: Limit, values: Sequence[int], *, status: AnyStatus) -> None:
    """Refuses a value outside a documented limit."""
    if min(values) < limit.least or max(values) > limit.most:
        raise invalid_argument(
            limit.parameter,
            given=list(values),
            allowed=f"{limit.where} in [{limit.least}, {limit.most}]",
            status=status,
        )


def check_equal(
    parameter: str, what: str, given: object, allowed: object, *, status: AnyStatus
) -> None:
    """Refuses what is not as the other arguments say.

    Args:
        parameter: The parameter at fault.
        what: What of it: "N".
        given: What it is.
        allowed: What it must be.
        status: The code.
    """
    if given != allowed:
        raise invalid_argument(
            parameter, given=f"{what} {given}", allowed=f"{what} {allowed}", status=status
        )


def check_bytes(parameter: str, shape: Sequence[int], size_bytes: int) -> None:
    """Refuses more bytes than 64 bits count (E60020).

    Args:
        parameter: The parameter at fault.
        shape: Sizes of what it makes large.
        size_bytes: Bytes of an element.
    """
    if prod(shape) * size_bytes > _MOST_BYTES:
        raise invalid_argument(
            parameter,
            given=f"{prod(shape) * size_bytes} bytes",
            allowed="at most 2^63-1 bytes",
            status=TbeStatus.E60020,
        )


def check_workspace(parameter: str, plan: Plan) -> Plan:
    """The plan; refuses one whose workspace has more bytes than 64 bits count (E60020)."""
    check_bytes(parameter, (plan.workspace_size,), 1)
    return plan
