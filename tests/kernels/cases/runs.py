"""Runs cases as a worker does, and their expected values on `reference`."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.execution import run_units
from opserve_kernels.cases.arrays import Placed, arrays_of, placed_in
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.reference_calls import ReferenceCall, reference_calls
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.conformance.expected import (
    PreparedCall,
    expected_in,
    kept_arrays,
    prepared_calls,
)
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.judge_case import Expected, judge_output, sized_outputs
from opserve_kernels.verdict.verdict import OutputVerdict

Array = NDArray[Any]
DIRECT = PlanOptions()


def plan_of(case: Case, options: PlanOptions = DIRECT) -> Plan:
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
    kernel = operator.kernel(PROFILES[case.profile])
    run_units(plan, kernel, tensors, np.zeros(plan.workspace_size, np.uint8))


def expected_of(case: Case, seed: int) -> dict[str, Expected]:
    """Expected values by output; none for a call that must be refused."""
    if case.is_refused:
        return {}
    found = dict[str, Expected]()
    for call in calls_of(case, seed, sized=sized_outputs(case)):
        kept: dict[str, Array] = {}
        for prepared in prepared_calls(call):
            kept |= kept_arrays(prepared, _answered(prepared))
        found |= expected_in(kept, call.projection)
    return found


def calls_of(case: Case, seed: int, *, sized: Collection[str]) -> tuple[ReferenceCall, ...]:
    """The request to the reference device, with the magnitudes of these outputs."""
    placed = arrays_of(case, seed)
    given = {name: placed[name].elements for name in case.inputs}
    return reference_calls(case, given, seed=seed, sized=sized)


def verdicts(
    case: Case, given: Mapping[str, Array], expected: Mapping[str, Expected]
) -> list[OutputVerdict]:
    """Of each output, by the layer that fits."""
    return [
        judge_output(case, one, given[one.output], expected[one.output]) for one in sums_of(case)
    ]


def _answered(prepared: PreparedCall) -> Mapping[str, Array]:
    case = prepared.case
    run(case, placed_in(case, prepared.storages))
    return prepared.storages
