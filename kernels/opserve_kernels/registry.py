"""Every operator with its plan, by name."""

from collections.abc import Iterable, Mapping
from typing import Any

from opserve_kernels.operator import Operator
from opserve_kernels.operators import OPERATOR_NAMES, module_of
from opserve_kernels.profiles import PROFILES


def _operator(name: str) -> Operator[Any]:
    operator: Operator[Any] = module_of(name, "operator").OPERATOR
    return operator


OPERATORS: Mapping[str, Operator[Any]] = {name: _operator(name) for name in OPERATOR_NAMES}


def kernels_of(profile: str) -> Mapping[str, str]:
    """Modules with `run`, by operator, for a device of a profile."""
    return {one.name: one.kernel(PROFILES[profile]) for one in operators_of(profile)}


def kernels_of_all(profiles: Iterable[str]) -> list[str]:
    """Modules with `run` for devices of these profiles, each once, sorted."""
    return sorted({kernel for profile in profiles for kernel in kernels_of(profile).values()})


def operators_of(profile: str) -> tuple[Operator[Any], ...]:
    """The operators that a profile has."""
    return tuple(operator for operator in OPERATORS.values() if profile in operator.support)
