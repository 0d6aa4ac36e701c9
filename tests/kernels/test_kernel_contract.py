"""What every kernel promises, whatever it computes: its memory, its slices, its inputs.

Every sample runs on its own profile and on `reference`, which takes whatever another one takes.
"""

from dataclasses import replace

import numpy as np
import pytest

from kernels.execution import GUARD, GUARD_BYTES, execute, plan_of, results
from kernels.parts import written
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import FILLER, Sample
from opserve_kernels.operator import WORKSPACE_ALIGNMENT

_OWN = [sample for samples in REGISTRY_SAMPLES.values() for sample in samples]
_ALL = [*_OWN, *(replace(sample, profile="reference") for sample in _OWN)]
every_sample = pytest.mark.parametrize(
    "sample",
    list({(s.operator, s.name, s.profile): s for s in _ALL}.values()),
    ids=lambda sample: f"{sample.operator}: {sample.name} on {sample.profile}",
)


@every_sample
@pytest.mark.parametrize("units", [1, 7])
def test_slices_of_any_size_give_the_same_bytes(sample: Sample, units: int) -> None:
    whole, sliced = sample.buffers(), sample.buffers()

    execute(sample, whole)
    execute(sample, sliced, units=units)

    for name, buffer in whole.items():
        np.testing.assert_array_equal(sliced[name], buffer, name)


@every_sample
def test_nothing_is_written_around_the_workspace(sample: Sample) -> None:
    guarded = execute(sample, sample.buffers())

    assert np.all(guarded[:GUARD_BYTES] == GUARD)
    assert np.all(guarded[-GUARD_BYTES:] == GUARD)


@every_sample
def test_workspace_is_aligned_and_every_part_of_it_is_used(sample: Sample) -> None:
    assert plan_of(sample).workspace_size % WORKSPACE_ALIGNMENT == 0
    assert np.all(written(sample))


@every_sample
def test_inputs_are_as_they_were(sample: Sample) -> None:
    buffers, before = sample.buffers(), sample.buffers()

    execute(sample, buffers)

    for name in sample.inputs:
        np.testing.assert_array_equal(buffers[name], before[name], name)


@every_sample
def test_bytes_between_and_around_the_elements_of_an_output_are_untouched(sample: Sample) -> None:
    buffers = sample.buffers()

    execute(sample, buffers)

    for name, tensor in sample.outputs.items():
        tensor.view(buffers[name])[...] = 0
        untouched = tensor.empty_buffer()
        tensor.view(untouched)[...] = 0
        np.testing.assert_array_equal(buffers[name], untouched, name)


@every_sample
def test_masked_outputs_are_untouched(sample: Sample) -> None:
    mask = sample.scalars.get("output_mask", (True,) * len(sample.outputs))
    order = ("grad_input", "grad_weight", "grad_bias") if "output_mask" in sample.scalars else ()
    masked = [name for name, wanted in zip(order, mask, strict=False) if not wanted]
    buffers = sample.buffers()

    execute(sample, buffers, hides_masked=False)

    for name in set(masked) & set(sample.outputs):
        assert np.all(buffers[name] == FILLER)


@every_sample
def test_a_second_run_gives_the_same_bytes(sample: Sample) -> None:
    first, second = results(sample), results(sample)

    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes()
