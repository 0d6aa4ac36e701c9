"""Checks of both operators of the TBE DSL; the caller of each passes the error's code."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from opserve_kernels.errors import invalid_argument
from opserve_kernels.formats import BLOCK
from opserve_kernels.operator import Limit
from opserve_kernels.rules import check_supported
from opserve_kernels.status import AnyStatus, TbeStatus
from opserve_kernels.tensor import BYTES_MAXIMUM, Format, Tensor

Value = TypeVar("Value")

_MADE_BY: Mapping[Format, str] = {
    Format.FRACTAL_Z: "FRACTAL_Z, which opserve_client.to_fractal_z makes",
    Format.NC1HWC0: "NC1HWC0, which opserve_client.to_5hd makes",
}
"""Formats with the client function that converts a tensor in plain order."""
_RANKS: Mapping[Format, int] = {Format.FRACTAL_Z: 4, Format.NC1HWC0: 5}


def required(parameter: str, value: Value | None) -> Value:
    """Returns the value; rejects a missing one (E60038)."""
    if value is None:
        raise invalid_argument(
            parameter, given="nothing", allowed="a value", status=TbeStatus.E60038
        )
    return value


def check_result(
    spelling: str, results: Mapping[str, Sequence[str]], *, profile: str, status: AnyStatus
) -> None:
    """Rejects a res_dtype that the profile does not support, and names profiles that do."""
    check_supported("para_dict.res_dtype", spelling, results, profile=profile, status=status)


def check_rank(parameter: str, tensor: Tensor, tag: Format, *, status: AnyStatus) -> None:
    """Rejects another number of dimensions than the format has."""
    if tensor.rank != _RANKS[tag]:
        raise invalid_argument(
            parameter,
            given=f"shape {list(tensor.shape)}",
            allowed=f"{_RANKS[tag]} dimensions: {_MADE_BY[tag]}",
            status=status,
        )


def check_format(parameter: str, tensor: Tensor, tag: Format, *, status: AnyStatus) -> None:
    """Rejects a format that is neither the tensor's nor ND, which has no meaning of its own."""
    if tensor.format not in {tag, Format.ND}:
        raise invalid_argument(
            parameter,
            given=f"format {tensor.format}",
            allowed=f"format {Format.ND} or {_MADE_BY[tag]}",
            status=status,
        )


def check_length(parameter: str, values: Sequence[int], length: int, *, status: AnyStatus) -> None:
    """Rejects a row of integers of another length."""
    if len(values) != length:
        raise invalid_argument(
            parameter,
            given=f"{len(values)} values {list(values)}",
            allowed=f"{length} values",
            status=status,
        )


def check_least(parameter: str, values: Sequence[int], least: int, *, status: AnyStatus) -> None:
    """Rejects a value below the least."""
    if min(values) < least:
        raise invalid_argument(
            parameter, given=list(values), allowed=f"values >= {least}", status=status
        )


def check_limit(
    limit: Limit, values: Sequence[int], *, profile: str, status: AnyStatus, given: str = ""
) -> None:
    """Rejects a value outside a documented limit; on other profiles, one below the least.

    Args:
        limit: The limit.
        values: Values that it binds.
        profile: Profile of the call.
        status: The code of the error.
        given: Text of the given values, where the values alone are not enough.
    """
    binds = profile in limit.profiles
    if min(values) >= limit.least and not (binds and not all(map(limit.holds, values))):
        return
    bounds = f"{limit.least} to {limit.most}" if binds else f"at least {limit.least}"
    raise invalid_argument(
        limit.parameter,
        given=given or list(values),
        allowed=f"{bounds} for {limit.where}",
        status=status,
    )


def check_equal(
    parameter: str, what: str, given: object, allowed: object, *, source: str, status: AnyStatus
) -> None:
    """Rejects a value that does not equal the value that another argument implies.

    Args:
        parameter: The parameter at fault.
        what: Name of the value: "N".
        given: The given value.
        allowed: The required value.
        source: Origin of the required value: "that of input_sizes".
        status: The code of the error.
    """
    if given != allowed:
        raise invalid_argument(
            parameter,
            given=f"{what} {given}",
            allowed=f"{what} {allowed}, {source}",
            status=status,
        )


def check_lanes(parameter: str, tensor: Tensor, tag: Format, *, status: AnyStatus) -> None:
    """Rejects blocks of another number of channels than 16."""
    what, blocked = ("Cout0 and Cin0", 2) if tag == Format.FRACTAL_Z else ("C0", 1)
    given, allowed = list(tensor.shape[-blocked:]), [BLOCK] * blocked
    source = f"the last dimensions of {_MADE_BY[tag]}"
    check_equal(parameter, what, given, allowed, source=source, status=status)


def check_undilated(dilations: Sequence[int], *, status: AnyStatus) -> None:
    """Rejects dilation in N or C."""
    check_equal(
        "para_dict.dilations",
        "N and C",
        list(dilations[:2]),
        [1, 1],
        source="for only height and width may be dilated",
        status=status,
    )


def check_bytes(parameter: str, shape: Sequence[int], size_bytes: int) -> None:
    """Rejects more bytes than 64 bits count (E60020).

    Args:
        parameter: The parameter at fault.
        shape: Sizes of the tensor that becomes too large.
        size_bytes: Bytes of an element.
    """
    if prod(shape) * size_bytes > BYTES_MAXIMUM:
        raise invalid_argument(
            parameter,
            given=f"{prod(shape) * size_bytes} bytes",
            allowed="at most 2^63-1 bytes",
            status=TbeStatus.E60020,
        )
