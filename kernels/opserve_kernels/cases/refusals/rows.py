"""Calls that must be refused: one for each row of each operator's error table."""

from collections.abc import Callable, Mapping

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals import (
    conv2d_backprop_filter,
    conv2d_backprop_input,
    convolution_backward,
    deconv_grad_filter,
    im2col_backward,
)
from opserve_kernels.cases.refusals.changes import Breach, Row, refused, row_of
from opserve_kernels.operator import Rule, RuleOrigin
from opserve_kernels.operators.conv2d_backprop_filter import contract as filter_contract
from opserve_kernels.operators.conv2d_backprop_input import contract as input_contract
from opserve_kernels.operators.convolution_backward import error_table as convolution_table
from opserve_kernels.operators.deconv_grad_filter import contract as deconvolution_contract
from opserve_kernels.operators.im2col_backward import contract as fold_contract

RULES: Mapping[str, tuple[Rule, ...]] = {
    "convolution_backward": convolution_table.RULES,
    "im2col_backward": fold_contract.RULES,
    "conv2d_backprop_input": input_contract.RULES,
    "conv2d_backprop_filter": filter_contract.RULES,
    "deconv_grad_filter": deconvolution_contract.RULES,
}
BREACHES: Mapping[str, Callable[[], Mapping[Row, Breach]]] = {
    "convolution_backward": convolution_backward.breaches,
    "im2col_backward": im2col_backward.breaches,
    "conv2d_backprop_input": conv2d_backprop_input.breaches,
    "conv2d_backprop_filter": conv2d_backprop_filter.breaches,
    "deconv_grad_filter": deconv_grad_filter.breaches,
}


def refusals_of(operator: str) -> tuple[Case, ...]:
    """A call for each rule that is an error by default, in the order of the error table.

    Raises:
        KeyError: No call is written for a row.
    """
    breaches = BREACHES[operator]()
    return tuple(
        refused(rule, breaches[row_of(rule)])
        for rule in RULES[operator]
        if rule.origin is not RuleOrigin.CONTRADICTED
    )
