"""Planning takes few loop iterations for all sizes of a call: it runs in the event loop."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from kernels.iterations import Iterations
from kernels.planned_calls import (
    BATCH,
    DEMANDING,
    PlannedCall,
    hostile_calls,
    largest_call,
    random_calls,
)
from opserve_kernels import errors
from opserve_kernels.errors import MOST_ELEMENTS, InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType

MOST_ITERATIONS = 20_000
SAMPLED, ALL = 250, 10_000
LEAST_HOSTILE = 100
# Primes: the samples have every argument, size and profile.
HOSTILE_STEP = 83
SLOW_HOSTILE_STEP = 7
VAST_CALL = ConvolutionCall(
    input=(2, 3, 2147483647, 1000000),
    weight=(3, 3, 1, 1),
    stride=(63, 1),
    padding=(3, 3),
    dilation=(1, 3),
    transposed=True,
    dtypes=(DataType.BF16, DataType.BF16, DataType.BF16),
)
"""A call of 167 bytes whose plan once walked through two thousand million rows."""


def iterations_of(call: PlannedCall) -> int:
    with Iterations() as iterations:
        call.plan()
    return iterations.count


def work_of(calls: Iterable[PlannedCall]) -> list[int]:
    """Iterations of the calls that no rule refuses; the refused ones stay within the bound, too."""
    planned: list[int] = []
    for call in calls:
        with Iterations() as iterations:
            try:
                call.plan()
            except InvalidArgument:
                accepted = False
            else:
                accepted = True
        assert iterations.count <= MOST_ITERATIONS, call
        if accepted:
            planned.append(iterations.count)
    return planned


def test_iterations_of_loops_and_generators_are_counted() -> None:
    def loop() -> None:
        for _ in range(1000):
            pass

    with Iterations() as iterations:
        loop()
        sum(place for place in range(1000))
    assert 2000 <= iterations.count <= 3010


@pytest.mark.parametrize(
    "options", [PlanOptions(), DEMANDING, BATCH], ids=["alone", "in shares", "batch"]
)
def test_the_plan_of_a_vast_call_takes_few_iterations(
    monkeypatch: pytest.MonkeyPatch, options: PlanOptions
) -> None:
    monkeypatch.setattr(errors, "MOST_ELEMENTS", 2**62)
    assert iterations_of(PlannedCall(VAST_CALL.case(), options)) <= MOST_ITERATIONS


def test_plans_drawn_at_random_take_few_iterations() -> None:
    assert len(work_of(random_calls(1, SAMPLED))) > SAMPLED // 2


@pytest.mark.slow
def test_ten_thousand_plans_take_few_iterations() -> None:
    assert len(work_of(random_calls(2, ALL + ALL // 50))) >= ALL


def test_plans_at_the_ends_of_arguments_take_few_iterations() -> None:
    assert len(work_of(hostile_calls(HOSTILE_STEP))) >= LEAST_HOSTILE


@pytest.mark.slow
def test_plans_at_the_ends_of_every_argument_take_few_iterations() -> None:
    assert len(work_of(hostile_calls(SLOW_HOSTILE_STEP))) >= LEAST_HOSTILE


def test_a_call_larger_than_any_device_is_refused_after_all_rules_of_the_vendor() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        PlannedCall(VAST_CALL.case(), PlanOptions()).plan()
    assert refusal.value.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    assert refusal.value.parameter == "call"
    assert refusal.value.allowed == f"at most {MOST_ELEMENTS}"


def test_a_rule_of_the_vendor_is_checked_before_the_bound_on_elements() -> None:
    case = VAST_CALL.case()
    broken = replace(case, arguments={**case.arguments, "bias_sizes": (4,)})
    with pytest.raises(InvalidArgument) as refusal:
        PlannedCall(broken, PlanOptions()).plan()
    assert refusal.value.status == Status.ACLNN_ERR_PARAM_INVALID
    assert refusal.value.parameter == "bias_sizes"


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_the_largest_tensor_has_as_many_elements_as_the_bound_says(
    operator: str, more: int, *, fits: bool
) -> None:
    call = largest_call(operator, MOST_ELEMENTS, more)
    if fits:
        assert call.plan().units > 0
        return
    with pytest.raises(InvalidArgument) as refusal:
        call.plan()
    assert refusal.value.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
