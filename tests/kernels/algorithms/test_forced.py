"""Each algorithm computes what it is asked to, within the bound of the float64 oracle."""

import numpy as np
import pytest

from kernels.algorithms.forced import CALLS, assert_within_the_bound, forced, possible
from kernels.execution import execute, plan_of
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import Sample
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.operator import PlanOptions

CHOOSING = [
    sample
    for samples in REGISTRY_SAMPLES.values()
    for sample in samples
    if sample.profile != "reference" and plan_of(sample).algorithms
]
each_call = pytest.mark.parametrize(
    ("algorithm", "sample"),
    [
        pytest.param(algorithm, sample, id=f"{algorithm}: {sample.name}")
        for algorithm, samples in CALLS.items()
        for sample in samples
    ],
)


def test_every_algorithm_has_calls() -> None:
    assert set(CALLS) == set(Algorithm)


@each_call
def test_an_algorithm_that_is_asked_for_meets_the_oracle(
    algorithm: Algorithm, sample: Sample
) -> None:
    options = forced(sample, algorithm)
    assert options.algorithms
    assert set(options.algorithms) <= set(plan_of(sample, options).algorithms)
    assert_within_the_bound(sample, options)


@each_call
def test_it_may_be_cut_anywhere(algorithm: Algorithm, sample: Sample) -> None:
    options = forced(sample, algorithm)
    whole, sliced = sample.buffers(), sample.buffers()
    execute(sample, whole, options=options)
    execute(sample, sliced, units=3, options=options)
    for name, buffer in whole.items():
        np.testing.assert_array_equal(sliced[name], buffer, name)


@pytest.mark.parametrize("sample", CHOOSING, ids=lambda sample: f"{sample.operator}: {sample.name}")
def test_whatever_can_compute_a_sample_is_within_the_bound(sample: Sample) -> None:
    for way in possible(sample):
        assert_within_the_bound(sample, PlanOptions(algorithms=(way,)))
