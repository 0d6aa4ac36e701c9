"""Chosen algorithms, requested ones, and the description of a choice."""

from dataclasses import replace

import pytest

from kernels.algorithms.forced import CALLS, NOTHING, forced, possible
from kernels.execution import ANY_PLAN, plan_of
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.preference import preferred
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import Accuracy, PlanOptions

WIDE = convolution("wide", (2, 64, 28, 28), (64, 64, 3, 3), padding=(1, 1))
ONE_TAP = convolution("one tap", (4, 1024, 14, 14), (256, 1024, 1, 1))
FEW = convolution("few", (2, 1, 28, 28), (64, 1, 3, 3), output_mask=(True, False, False))
ONE_CHANNEL = convolution("one channel", (2, 64, 28, 28), (64, 1, 3, 3), groups=64)
LARGE = convolution("large", (1, 16, 2, 12000, 12000), (1, 16, 1, 3, 3), padding=(0, 1, 1))
FAR_APART = convolution("far apart", (1, 2, 19, 19), (2, 2, 2, 2), stride=(9, 9))


@pytest.mark.parametrize(
    ("sample", "algorithms"),
    [
        (WIDE, {"image: winograd", "weight: winograd"}),
        (ONE_TAP, {"image: packed", "weight: outer"}),
        (FEW, {"image: flat"}),
        (ONE_CHANNEL, {"image: depthwise", "weight: depthwise"}),
        (FAR_APART, {"image: columns", "weight: columns"}),
        (replace(WIDE, profile="reference"), {"image: reference", "weight: reference"}),
        (CALLS[Algorithm.PERMUTE][0], {"image: permute"}),
        (CALLS[Algorithm.FOLD][0], {"image: fold"}),
    ],
    ids=lambda value: value.name if isinstance(value, Sample) else "",
)
def test_usual_calls_are_computed_by_the_algorithm_for_them(
    sample: Sample, algorithms: set[str]
) -> None:
    assert set(plan_of(sample).algorithms) == algorithms


@pytest.mark.parametrize("batch_consistent", [False, True])
def test_only_columns_have_a_workspace_of_8_gib(*, batch_consistent: bool) -> None:
    """The other algorithms have tables of int32 places of float32 values."""
    plan = plan_of(LARGE, replace(ANY_PLAN, batch_consistent=batch_consistent))
    assert plan.workspace_size > 1 << 33
    assert all("columns" in algorithm for algorithm in plan.algorithms)


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
def test_requesting_the_chosen_algorithm_makes_the_same_plan(operator: str) -> None:
    for sample in REGISTRY_SAMPLES[operator]:
        plan = plan_of(sample)
        again = plan_of(sample, replace(ANY_PLAN, algorithms=plan.algorithms))
        assert again == plan, sample.name


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ((NOTHING,), ANY_PLAN),
        (("image: dots",), ANY_PLAN),
        (("output: packed",), ANY_PLAN),
        (("image: depthwise",), ANY_PLAN),
        (("image: reference",), ANY_PLAN),
        (("image: packed", "image: flat"), ANY_PLAN),
        (("image: packed", "image: packed"), ANY_PLAN),
        (("image: winograd",), PlanOptions()),
    ],
)
def test_impossible_values_are_refused_with_the_allowed_ones(
    asked: tuple[str, ...], options: PlanOptions
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(WIDE, replace(options, algorithms=asked))
    assert refusal.value.given == ", ".join(asked)
    direct = {"image": ("packed", "flat"), "weight": ("dots", "outer")}
    for product, algorithms in direct.items():
        for algorithm in ("columns", *algorithms):
            assert f"{product}: {algorithm}" in refusal.value.allowed
    assert ("winograd" in refusal.value.allowed) == (options.accuracy is Accuracy.FAST)


def test_a_call_without_products_requests_no_magnitudes() -> None:
    masked = WIDE.but("only sums", output_mask=(False, False, True))
    with pytest.raises(InvalidArgument, match="a call without any"):
        plan_of(masked, PlanOptions(algorithms=("image: packed",)))


def test_geometries_beyond_proportion_are_for_columns_only() -> None:
    assert possible(FAR_APART) == ["image: columns", "weight: columns"]


def test_requested_algorithms_stay_under_a_limit_of_the_workspace() -> None:
    asked = replace(ANY_PLAN, algorithms=("weight: winograd",), workspace_limit=1)
    assert "weight: winograd" in plan_of(WIDE, asked).algorithms
    assert "image: winograd" not in plan_of(WIDE, asked).algorithms


def test_of_ways_about_as_fast_the_smallest_workspace_is_taken() -> None:
    sizes = {"fast": 30, "close": 20, "slow": 10}
    assert preferred({"fast": 100, "close": 101, "slow": 110}, sizes.__getitem__) == "close"
    assert preferred({"fast": 100, "close": 110, "slow": 120}, sizes.__getitem__) == "fast"
    assert preferred({"close": 100.5, "fast": 100}, lambda _: 5) == "fast"


def test_a_choice_between_equals_needs_the_smaller_workspace() -> None:
    """Costs of the products differ by less than anyone could measure."""
    sample = convolution("close", (1, 48, 14, 14), (40, 48, 3, 3), padding=(1, 1))
    sizes = {
        algorithm: plan_of(sample, forced(sample, algorithm)).workspace_size
        for algorithm in (Algorithm.DOTS, Algorithm.OUTER)
    }
    assert plan_of(sample).workspace_size == min(sizes.values())
