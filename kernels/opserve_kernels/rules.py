"""Checks that operators share: a value is given, a dtype is supported, integers are in range."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from opserve_kernels.errors import invalid_argument, null_argument
from opserve_kernels.operator import Support
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType, Tensor

Value = TypeVar("Value")


def required(parameter: str, value: Value | None, *, wanted: str = "a value") -> Value:
    """Returns the value; rejects a missing one (161001)."""
    if value is None:
        raise null_argument(parameter, wanted=wanted)
    return value


def check_dtype(
    parameter: str,
    tensor: Tensor,
    *,
    support: Mapping[str, Support],
    profile: str,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> None:
    """Rejects a tensor's dtype that the profile lacks, and names profiles that have it."""
    dtypes_by_profile = {name: row.dtypes for name, row in support.items()}
    check_supported(parameter, tensor.dtype, dtypes_by_profile, profile=profile, status=status)


def check_page_dtype(
    parameter: str,
    tensor: Tensor,
    page: Sequence[DataType],
    *,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> None:
    """Rejects a dtype that only the vendor's newer source has, not its page."""
    if tensor.dtype not in page:
        raise invalid_argument(
            parameter,
            given=f"dtype {tensor.dtype}",
            allowed=f"dtypes {', '.join(page)}",
            status=status,
        )


def check_page_profile(profile: str, source_only: str, profiles: Iterable[str]) -> None:
    """Rejects a profile that only the vendor's newer source supports, not its page."""
    if profile == source_only:
        others = ", ".join(name for name in profiles if name != profile)
        raise invalid_argument("profile", given=profile, allowed=others)


def check_supported(
    parameter: str,
    dtype: str,
    dtypes_by_profile: Mapping[str, Sequence[str]],
    *,
    profile: str,
    status: AnyStatus,
    what: str = "dtype",
) -> None:
    """Rejects a dtype that the profile lacks, and names the profiles that have it.

    Args:
        parameter: The argument.
        dtype: The dtype as the argument spells it.
        dtypes_by_profile: Dtypes by profile, spelled likewise.
        profile: Profile of the device.
        status: The code of the error.
        what: Words before the dtype in the error.
    """
    if dtype in dtypes_by_profile[profile]:
        return
    able = [name for name, dtypes in dtypes_by_profile.items() if dtype in dtypes]
    raise invalid_argument(
        parameter,
        given=f"{what} {dtype}",
        allowed=f"dtypes {', '.join(dtypes_by_profile[profile])} on {profile}"
        f"{supported_elsewhere(dtype, able)}",
        status=status,
    )


def supported_elsewhere(what: str, profiles: Iterable[str]) -> str:
    """The end of an error's allowed values: profiles that support the value; empty without any."""
    able = ", ".join(profiles)
    return f"; {what} on {able}" if able else ""


def check_length(parameter: str, values: Sequence[int], *, allowed: int) -> None:
    """Rejects a row of integers of another length (161002)."""
    if len(values) != allowed:
        given = f"{_values(len(values))} {list(values)}"
        raise invalid_argument(parameter, given=given, allowed=_values(allowed))


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def check_range(
    parameter: str,
    values: Sequence[int] | int,
    *,
    least: int,
    most: int | None = None,
    where: str = "",
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> None:
    """Rejects a value outside [least, most].

    Args:
        parameter: The argument.
        values: All of its values, or the only one.
        least: Least value.
        most: Greatest value, if there is one.
        where: Profiles with and without the range, as the end of the allowed values.
        status: The code of the error.
    """
    scalar = isinstance(values, int)
    given = [values] if isinstance(values, int) else list(values)
    if any(value < least or (most is not None and value > most) for value in given):
        bounds = f">= {least}" if most is None else f"in [{least}, {most}]"
        raise invalid_argument(
            parameter,
            given=values if scalar else given,
            allowed=f"{'a value' if scalar else 'values'} {bounds}{where}",
            status=status,
        )
