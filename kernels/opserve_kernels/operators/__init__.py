"""The operators: a folder each, with everything that the rest of the system needs of one."""

from importlib import import_module
from types import ModuleType

OPERATOR_NAMES = (
    "convolution_backward",
    "im2col_backward",
    "conv2d_backprop_input",
    "conv2d_backprop_filter",
    "deconv_grad_filter",
)
"""The registry, in the order of docs and suites; a name is that of the folder and of the proto."""


def module_of(operator: str, part: str) -> ModuleType:
    """A module of an operator's folder: "schema", "operator", "cases", ...

    By name, so that operators share modules that look up others and still import none of them.
    """
    return import_module(f"{__name__}.{operator}.{part}")


def outputs_of(operator: str) -> tuple[str, ...]:
    """Names of the tensors that an operator writes, in the schema's order."""
    outputs: tuple[str, ...] = module_of(operator, "schema").OUTPUTS
    return outputs
