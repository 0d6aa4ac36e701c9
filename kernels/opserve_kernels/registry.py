"""Every operator, by name."""

from collections.abc import Mapping
from typing import Any

from opserve_kernels import (
    conv2d_backprop_filter,
    conv2d_backprop_input,
    convolution_backward,
    deconv_grad_filter,
    im2col_backward,
)
from opserve_kernels.operator import Operator
from opserve_kernels.profiles import PROFILES

OPERATORS: Mapping[str, Operator[Any]] = {
    operator.name: operator
    for operator in (
        convolution_backward.OPERATOR,
        im2col_backward.OPERATOR,
        conv2d_backprop_input.OPERATOR,
        conv2d_backprop_filter.OPERATOR,
        deconv_grad_filter.OPERATOR,
    )
}


def kernels_of(profile: str) -> Mapping[str, str]:
    """Modules with `run`, by operator, of a device of a profile."""
    return {one.name: one.kernel(PROFILES[profile]) for one in operators_of(profile)}


def operators_of(profile: str) -> tuple[Operator[Any], ...]:
    """The operators that a profile has."""
    return tuple(operator for operator in OPERATORS.values() if profile in operator.support)
