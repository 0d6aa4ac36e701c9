"""Each algorithm computes what it is asked to, within the bound of the float64 oracle."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms.forced import CALLS, assert_within_the_bound, forced, possible
from kernels.execution import ANY_PLAN, execute, plan_of
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample
from kernels.workspace_parts import more_than_padded
from opserve_kernels.algorithms.names import Algorithm

CHOOSING = [
    sample
    for samples in REGISTRY_SAMPLES.values()
    for sample in samples
    if sample.profile != "reference" and plan_of(sample).algorithms
]
# Without padding, of whole vectors or as few channels as a row of registers holds.
WITHOUT_PADDING = (
    *((Algorithm.PACKED, shape) for shape in ((16, 16, 1), (32, 16, 1), (1, 16, 1))),
    *((Algorithm.DOTS, shape) for shape in ((16, 16, 1), (16, 1, 1), (1, 16, 1))),
    *((Algorithm.OUTER, shape) for shape in ((16, 16, 3), (32, 16, 3), (48, 48, 3))),
    *((Algorithm.COLUMNS, shape) for shape in ((17, 17, 3), (1, 16, 3))),
    *((Algorithm.WINOGRAD, shape) for shape in ((16, 16, 3), (48, 48, 3))),
)
each_call = pytest.mark.parametrize(
    ("algorithm", "sample"),
    [
        pytest.param(algorithm, sample, id=f"{algorithm}: {sample.name}")
        for algorithm, samples in CALLS.items()
        for sample in samples
    ],
)


def test_every_algorithm_has_calls() -> None:
    # Batch consistency alone chooses it: test_batch_consistency.py.
    assert set(CALLS) == set(Algorithm) - {Algorithm.COLUMNS_BY_ENTRY}


@each_call
def test_a_requested_algorithm_meets_the_oracle(algorithm: Algorithm, sample: Sample) -> None:
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
def test_every_algorithm_for_a_sample_is_within_the_bound(sample: Sample) -> None:
    for way in possible(sample):
        assert_within_the_bound(sample, replace(ANY_PLAN, algorithms=(way,)))


@pytest.mark.parametrize(("algorithm", "shape"), WITHOUT_PADDING)
def test_no_part_of_the_workspace_has_unrequested_padding(
    algorithm: Algorithm, shape: tuple[int, int, int]
) -> None:
    channels, outputs, taps = shape
    # Dots read some padding behind their copy. Here it shares a part with the copy's values.
    size = (14 if algorithm is Algorithm.DOTS else 15) + taps
    sample = convolution("wide", (2, channels, size, size), (outputs, channels, taps, taps))
    options = forced(sample, algorithm)
    for way in options.algorithms:
        product, _, _ = way.partition(":")
        mask = (product == "image", product == "weight", False)
        one = sample.but("one", output_mask=mask)
        assert np.all(more_than_padded(one, replace(ANY_PLAN, algorithms=(way,)))), way
