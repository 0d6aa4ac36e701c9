"""The contract of every kernel: its memory, its slices, its inputs.

Every sample runs on its own profile and on `reference`, which takes every call of the others.
"""

from dataclasses import replace

import numpy as np
import pytest

from kernels.execution import GUARD, GUARD_BYTES, execute, plan_of
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import FILLER, Sample
from kernels.workspace_parts import written
from opserve_kernels.operator import WORKSPACE_ALIGNMENT

_OWN = [sample for samples in REGISTRY_SAMPLES.values() for sample in samples]
_ALL = [*_OWN, *(replace(sample, profile="reference") for sample in _OWN)]
SAMPLES = list({(s.operator, s.name, s.profile): s for s in _ALL}.values())


def name_of(sample: Sample) -> str:
    return f"{sample.operator}: {sample.name} on {sample.profile}"


def mask_of(sample: Sample) -> tuple[bool, ...]:
    """Which outputs are wanted; empty where an operator cannot leave one out."""
    mask: tuple[bool, ...] = sample.scalars.get("output_mask", ())
    return mask


every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=name_of)


@every_sample
def test_a_call_writes_the_elements_of_its_outputs_and_nothing_else(sample: Sample) -> None:
    buffers, before = sample.buffers(), sample.buffers()

    guarded = execute(sample, buffers)

    assert np.all(guarded[:GUARD_BYTES] == GUARD), "it wrote before the workspace"
    assert np.all(guarded[-GUARD_BYTES:] == GUARD), "it wrote behind the workspace"
    for name in sample.inputs:
        np.testing.assert_array_equal(buffers[name], before[name], f"it changed its input {name}")
    for name, tensor in sample.outputs.items():
        tensor.view(buffers[name])[...] = 0
        untouched = tensor.empty_buffer()
        tensor.view(untouched)[...] = 0
        np.testing.assert_array_equal(buffers[name], untouched, f"it wrote beside {name}")


@every_sample
def test_slices_of_any_size_and_a_second_run_compute_the_same_bytes(sample: Sample) -> None:
    first = sample.buffers()
    execute(sample, first)

    for units in (None, 1, 7):
        again = sample.buffers()
        execute(sample, again, units=units)
        for name, buffer in first.items():
            np.testing.assert_array_equal(again[name], buffer, f"{name} in slices of {units}")


@every_sample
def test_workspace_is_aligned_and_every_part_of_it_is_used(sample: Sample) -> None:
    assert plan_of(sample).workspace_size % WORKSPACE_ALIGNMENT == 0
    assert np.all(written(sample))


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if not all(mask_of(sample))], ids=name_of
)
def test_masked_outputs_are_untouched(sample: Sample) -> None:
    order = ("grad_input", "grad_weight", "grad_bias")
    masked = {name for name, wanted in zip(order, mask_of(sample), strict=True) if not wanted}
    buffers = sample.buffers()

    execute(sample, buffers, hides_masked=False)

    for name in masked & set(sample.outputs):
        assert np.all(buffers[name] == FILLER)
