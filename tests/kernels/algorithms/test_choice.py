"""Every algorithm that takes a call computes it right, whichever would be chosen."""

import numpy as np
import pytest

from kernels.execution import execute, plan_of, results
from kernels.oracles.convolution_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import Sample
from opserve_kernels import gradient_plan
from opserve_kernels.gradient_plan import Algorithm
from opserve_kernels.gradients import Gradients
from opserve_kernels.operator import PlanOptions

ON_DEVICES = [
    sample
    for sample in REGISTRY_SAMPLES["convolution_backward"]
    if sample.profile != "reference" and any(sample.scalars["output_mask"][:2])
]
each_sample = pytest.mark.parametrize("sample", ON_DEVICES, ids=lambda sample: sample.name)


def choose_always(monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm) -> None:
    def choose(gradients: Gradients, options: PlanOptions) -> Algorithm:
        del gradients, options
        return algorithm

    monkeypatch.setattr(gradient_plan, "choose", choose)


def chosen(monkeypatch: pytest.MonkeyPatch, sample: Sample) -> Algorithm | None:
    """What is chosen for a call; None where there is nothing to choose."""
    found: list[Algorithm] = []
    choose = gradient_plan.choose

    def remembered(gradients: Gradients, options: PlanOptions) -> Algorithm:
        found.append(choose(gradients, options))
        return found[-1]

    monkeypatch.setattr(gradient_plan, "choose", remembered)
    plan_of(sample)
    return found[0] if found else None


@each_sample
@pytest.mark.parametrize("algorithm", [Algorithm.COLUMNS, Algorithm.DIRECT])
def test_algorithms_for_every_call_are_within_the_bound(
    monkeypatch: pytest.MonkeyPatch, sample: Sample, algorithm: Algorithm
) -> None:
    choose_always(monkeypatch, algorithm)
    buffers = sample.buffers()
    found = results(sample)
    for name, expectation in expected(sample, buffers).items():
        assert_meets(found[name], expectation)


@each_sample
def test_the_matrix_of_columns_may_be_cut_anywhere(
    monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    choose_always(monkeypatch, Algorithm.COLUMNS)
    whole, sliced = sample.buffers(), sample.buffers()
    execute(sample, whole)
    execute(sample, sliced, units=3)
    for name, buffer in whole.items():
        np.testing.assert_array_equal(sliced[name], buffer, name)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("2-D", Algorithm.DIRECT),
        ("depthwise", Algorithm.DEPTHWISE),
        ("depthwise in 3-D", Algorithm.DEPTHWISE),
        ("transposed", Algorithm.DIRECT),
    ],
)
def test_usual_calls_are_computed_by_the_algorithm_for_them(
    monkeypatch: pytest.MonkeyPatch, name: str, algorithm: Algorithm
) -> None:
    (sample,) = (sample for sample in ON_DEVICES if sample.name == name)
    assert chosen(monkeypatch, sample) is algorithm
