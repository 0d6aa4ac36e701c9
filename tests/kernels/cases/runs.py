"""Runs cases as a worker does, and their goldens on `reference`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.execution import run_units
from opserve_kernels.cases.arrays import Placed, arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.golden import GoldenCall, golden_calls
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.judge_case import Golden, goldens_of_call, judge_output
from opserve_kernels.verdict.verdict import OutputVerdict

Array = NDArray[Any]
STRICT, ANY = PlanOptions(strict=True), PlanOptions()


def plan_of(case: Case, options: PlanOptions = STRICT) -> Plan:
    operator = OPERATORS[case.operator]
    plan: Plan = operator.plan(arguments_of(case, operator.schema), PROFILES[case.profile], options)
    return plan


def run(case: Case, placed: Mapping[str, Placed]) -> None:
    """Writes the outputs."""
    operator, plan = OPERATORS[case.operator], plan_of(case)
    nothing = np.empty(0, np.uint8)
    tensors = [
        placed[name].storage.view(np.uint8) if name in placed else nothing
        for name in operator.tensor_fields
    ]
    run_units(plan, operator.kernel, tensors, np.zeros(plan.workspace_size, np.uint8))


def golden_of(case: Case, seed: int) -> dict[str, Golden]:
    """Golden values by output; none for a call that must be refused."""
    found: dict[str, Golden] = {}
    for call in () if case.is_refused else golden_calls(case, seed):
        values, sizes = _reference(call, magnitudes=False), _reference(call, magnitudes=True)
        found |= goldens_of_call(call, values, sizes)
    return found


def verdicts(
    case: Case, given: Mapping[str, Array], golden: Mapping[str, Golden]
) -> list[OutputVerdict]:
    """Of each output, by the layer that fits."""
    return [judge_output(case, one, given[one.output], golden[one.output]) for one in sums_of(case)]


def _reference(call: GoldenCall, *, magnitudes: bool) -> dict[str, Array]:
    placed = dict(arrays_of(call.case, 0))
    for name, operand in call.operands.items():
        values = np.abs(operand) if magnitudes else operand
        placed[name] = Placed(storage=np.ascontiguousarray(values).reshape(-1), elements=values)
    run(call.case, placed)
    return {name: placed[name].elements for name in call.case.written}
