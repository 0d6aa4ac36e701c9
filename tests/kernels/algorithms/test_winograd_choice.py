"""Which calls are computed by Winograd's algorithm, and how exactly, by operator."""

from typing import Any

import numpy as np
import pytest

from kernels.execution import ANY_PLAN, execute, plan_of, results
from kernels.oracles.convolution_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample, Values
from opserve_kernels.algorithms import winograd_cost
from opserve_kernels.convolution import Convolution
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

HALF, BF16 = DataType.FLOAT16, DataType.BF16
ORDINARY = convolution("many channels", (2, 64, 28, 28), (64, 64, 3, 3), padding=(1, 1))
OTHERS = [
    convolution("narrow", (2, 33, 9, 8), (17, 33, 3, 3), padding=(1, 1)),
    convolution("one pixel", (1, 5, 1, 1), (3, 5, 3, 3), padding=(1, 1)),
    convolution("far padding", (1, 5, 2, 3), (9, 5, 3, 3), padding=(5, 4)),
    convolution("dilated", (1, 9, 11, 12), (9, 9, 3, 3), padding=(2, 3), dilation=(2, 3)),
    convolution("groups", (2, 12, 6, 7), (9, 4, 3, 3), padding=(1, 1), groups=3),
    convolution("turned", (2, 9, 6, 7), (9, 5, 3, 3), padding=(1, 1), transposed=True),
    convolution("5x5", (2, 17, 9, 8), (9, 17, 5, 5), padding=(2, 2)),
    convolution("5x5 turned", (2, 9, 6, 7), (9, 5, 5, 5), padding=(3, 1), transposed=True),
    convolution("1-D", (2, 17, 30), (9, 17, 3), padding=(1,)),
    convolution("1-D dilated", (2, 9, 31), (9, 9, 3), padding=(3,), dilation=(4,)),
    convolution("1-D groups", (2, 12, 30), (9, 4, 3), padding=(2,), groups=3),
    convolution("halves", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), dtypes=(HALF,) * 3),
    convolution("bf16", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), dtypes=(BF16,) * 3),
    convolution("hf32", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), cube_math_type=3),
    convolution("large", (2, 9, 6, 7), (9, 9, 3, 3), dtypes=(HALF,) * 3, values=Values.LARGE),
    convolution("special", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), values=Values.SPECIAL),
]
FORCED = [
    sample
    for sample in [*REGISTRY_SAMPLES["convolution_backward"], ORDINARY, *OTHERS]
    if sample.profile != "reference"
]


@pytest.fixture
def pays_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Winograd's algorithm can compute, it computes."""

    def pays(convolution: Convolution) -> bool:
        del convolution
        return True

    for name in ("image_pays", "output_pays", "weight_pays"):
        monkeypatch.setattr(winograd_cost, name, pays)


def transformed(sample: Sample, options: PlanOptions = ANY_PLAN) -> list[str]:
    """The outputs that Winograd's algorithm computes."""
    names = {"image": "grad_input", "output": "grad_input", "weight": "grad_weight"}
    told = [algorithm.split(": ") for algorithm in plan_of(sample, options).algorithms]
    return [names[product[0]] for product in told if product[-1] == "winograd"]


def assert_within_the_bound(sample: Sample, options: PlanOptions = ANY_PLAN) -> None:
    by_it = transformed(sample, options)
    found = results(sample, options=options)
    for name, expectation in expected(sample, sample.buffers(), transformed=by_it).items():
        assert_meets(found[name], expectation)


@pytest.mark.usefixtures("pays_always")
@pytest.mark.parametrize("sample", FORCED, ids=lambda sample: sample.name)
def test_whatever_it_can_compute_is_within_its_bound(sample: Sample) -> None:
    assert_within_the_bound(sample)


@pytest.mark.usefixtures("pays_always")
@pytest.mark.parametrize("sample", OTHERS, ids=lambda sample: sample.name)
def test_it_may_be_cut_anywhere(sample: Sample) -> None:
    assert transformed(sample) == ["grad_input", "grad_weight"]
    whole, sliced = sample.buffers(), sample.buffers()
    execute(sample, whole)
    execute(sample, sliced, units=3)
    for name, buffer in whole.items():
        np.testing.assert_array_equal(sliced[name], buffer, name)


def test_many_channels_are_computed_by_it_within_its_bound() -> None:
    assert transformed(ORDINARY) == ["grad_input", "grad_weight"]
    assert_within_the_bound(ORDINARY)


def test_strict_plans_are_within_the_bound_of_direct_algorithms() -> None:
    strict = PlanOptions(strict=True)
    assert transformed(ORDINARY, strict) == []
    assert_within_the_bound(ORDINARY, strict)


def test_a_limit_of_the_workspace_is_kept_by_a_direct_algorithm() -> None:
    limit = plan_of(ORDINARY).workspace_size - 1
    smaller = plan_of(ORDINARY, PlanOptions(workspace_limit=limit))
    assert smaller.workspace_size <= limit
    assert smaller.algorithms == plan_of(ORDINARY, PlanOptions(strict=True)).algorithms


@pytest.mark.parametrize(
    ("weight", "changes"),
    [
        ((64, 1, 3, 3), {"groups": 64}),
        ((64, 64, 3, 3), {"stride": (2, 2)}),
        ((64, 64, 1, 1), {}),
        ((4, 64, 3, 3), {}),
    ],
)
def test_what_other_algorithms_are_for_is_left_to_them(
    weight: tuple[int, ...], changes: dict[str, Any]
) -> None:
    assert not transformed(convolution("other", (2, 64, 28, 28), weight, **changes))
