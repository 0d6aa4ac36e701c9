"""The samples of every operator, by its name in the registry."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from kernels.samples import convolution_backward_empty, convolution_backward_errors
from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.operators import OPERATOR_NAMES

_MODULES: Mapping[str, ModuleType] = {
    name: import_module(f"{__name__}.{name}") for name in OPERATOR_NAMES
}
_ERRORS = {**_MODULES, "convolution_backward": convolution_backward_errors}
REGISTRY_SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    name: module.SAMPLES for name, module in _MODULES.items()
}
REGISTRY_ERROR_SAMPLES: Mapping[str, tuple[ErrorSample, ...]] = {
    name: module.ERROR_SAMPLES for name, module in _ERRORS.items()
}
CONTRADICTED_SAMPLES: Mapping[str, tuple[ErrorSample, ...]] = {
    name: module.CONTRADICTED_SAMPLES
    for name, module in _ERRORS.items()
    if hasattr(module, "CONTRADICTED_SAMPLES")
}
"""Calls that break a rule of RuleOrigin.CONTRADICTED, or of PAGE where an operator only warns."""
ERRORS_ELSEWHERE: Mapping[str, tuple[ErrorSample, ...]] = {
    "convolution_backward": convolution_backward_empty.ERRORS_OF_EMPTY,
}
"""More calls that break a row of the error table, where it is checked in more places than one."""
