"""The operators: one folder each, with everything that the rest of the system needs."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

OPERATOR_NAMES = (
    "convolution_backward",
    "im2col_backward",
    "conv2d_backprop_input",
    "conv2d_backprop_filter",
    "deconv_grad_filter",
    "im2col",
    "conv_tbc_backward",
    "convolution",
    "conv_depthwise2d",
    "conv_tbc",
)
"""The registry, in the order of docs and suites; a name is that of the folder and of the proto."""


def module_of(operator: str, part: str) -> ModuleType:
    """Imports a module of an operator's folder: "schema", "operator", "cases", ...

    Modules that operators share look others up by name, so they import no operator themselves.
    """
    return import_module(f"{__name__}.{operator}.{part}")


def operators_by_name() -> Mapping[str, str]:
    """Operators by their name and by the vendor's name of the call: aclnnConvolutionBackward."""
    calls = {str(module_of(name, "schema").CALL): name for name in OPERATOR_NAMES}
    return {name: name for name in OPERATOR_NAMES} | calls


def outputs_of(operator: str) -> tuple[str, ...]:
    """Names of the tensors that an operator writes, in the schema's order."""
    outputs: tuple[str, ...] = module_of(operator, "schema").OUTPUTS
    return outputs
