"""Runs a call as a worker does: plan, workspace, kernel in slices of work units."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.samples.sample import Bytes, Sample
from opserve_kernels.operator import Accuracy, Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS

GUARD_BYTES = 4096
GUARD = 0x5C
NAN_BYTE = 0xFF  # four of them are a NaN
ANY_PLAN = PlanOptions(accuracy=Accuracy.FAST)
"""Any algorithm computes, whichever is fastest."""


def plan_of(sample: Sample, options: PlanOptions = ANY_PLAN) -> Plan:
    """Phase one."""
    plan: Plan = OPERATORS[sample.operator].plan(
        sample.arguments(), PROFILES[sample.profile], options
    )
    return plan


def kernel_of(sample: Sample) -> str:
    """The module that runs it."""
    return OPERATORS[sample.operator].kernel(PROFILES[sample.profile])


def is_transformed(sample: Sample, options: PlanOptions = ANY_PLAN) -> bool:
    """Whether Winograd's algorithm computes anything of a call."""
    return any(
        algorithm.endswith(": winograd") for algorithm in plan_of(sample, options).algorithms
    )


def execute(
    sample: Sample,
    buffers: Mapping[str, Bytes],
    *,
    units: int | None = None,
    hides_masked: bool = True,
    options: PlanOptions = ANY_PLAN,
) -> Bytes:
    """Phase two, in slices of so many work units.

    Args:
        sample: The call.
        buffers: Device memory; outputs are written.
        units: Work units in a slice; all of them without it.
        hides_masked: Whether the kernel gets no buffer for an output that the mask leaves out, as
            in the service.
        options: Of the plan.

    Returns:
        The workspace, every byte of it NaN before, between two guards.
    """
    operator = OPERATORS[sample.operator]
    plan = plan_of(sample, options)
    nothing = np.empty(0, dtype=np.uint8)
    tensors = [buffers.get(name, nothing) for name in operator.tensor_fields]
    for place in masked(sample) if hides_masked else ():
        tensors[place] = nothing
    guarded = np.full(plan.workspace_size + 2 * GUARD_BYTES, GUARD, dtype=np.uint8)
    workspace = guarded[GUARD_BYTES : GUARD_BYTES + plan.workspace_size]
    workspace[:] = NAN_BYTE
    run_units(plan, kernel_of(sample), tensors, workspace, units=units)
    return guarded


def run_units(
    plan: Plan, kernel: str, tensors: Sequence[Bytes], workspace: Bytes, *, units: int | None = None
) -> None:
    """All work units of a plan, in slices of so many; at once without a number."""
    run: Any = import_module(kernel).run
    parameters = np.array(plan.parameters, dtype=np.int64)
    step = units or max(plan.units, 1)
    for first in range(0, plan.units, step):
        run(parameters, tensors, workspace, first, min(first + step, plan.units))


def results(
    sample: Sample, *, units: int | None = None, options: PlanOptions = ANY_PLAN
) -> dict[str, NDArray[Any]]:
    """The outputs of a call, masked or not."""
    buffers = sample.buffers()
    execute(sample, buffers, units=units, options=options)
    return {name: tensor.view(buffers[name]) for name, tensor in sample.outputs.items()}


def masked(sample: Sample) -> list[int]:
    """Places of the outputs that the mask leaves out."""
    operator = OPERATORS[sample.operator]
    mask = sample.scalars.get("output_mask", (True,) * len(operator.outputs))
    names = [name for name, wanted in zip(operator.outputs, mask, strict=True) if not wanted]
    return [operator.tensor_fields.index(name) for name in names]
