"""Kernels read and write within the tensors and the workspace, to the last byte of each."""

import ctypes
import mmap
import signal
from collections.abc import Iterator, Mapping
from importlib import import_module

import numpy as np
import pytest

from kernels.execution import masked, plan_of, run_units
from kernels.fences import Side, fenced, status_of_child
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import Bytes, Sample
from opserve_kernels import gradient_plan
from opserve_kernels.gradient_plan import Algorithm
from opserve_kernels.gradients import Gradients
from opserve_kernels.operator import PlanOptions
from opserve_kernels.registry import OPERATORS

each_side = pytest.mark.parametrize("side", list(Side))


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Loaded before children are forked, as the service does."""
    for operator in OPERATORS.values():
        import_module(operator.kernel)


@pytest.fixture
def progress() -> Iterator[mmap.mmap]:
    """How many calls a child has begun, which outlives it."""
    with mmap.mmap(-1, 8) as shared:
        yield shared


def run_between_fences(sample: Sample, side: Side) -> None:
    operator, plan = OPERATORS[sample.operator], plan_of(sample)
    buffers: Mapping[str, Bytes] = sample.buffers()
    nothing = np.empty(0, np.uint8)
    tensors = [
        fenced(buffers[name], side) if name in buffers and place not in masked(sample) else nothing
        for place, name in enumerate(operator.tensor_fields)
    ]
    workspace = fenced(np.full(plan.workspace_size, 0xFF, np.uint8), side)
    run_units(plan, operator.kernel, tensors, workspace)


def died_in(samples: list[Sample], side: Side, progress: mmap.mmap) -> str:
    """The name of the call that a process was in when it ended too early; else empty."""

    def run_all() -> None:
        for index, sample in enumerate(samples):
            progress[:] = index.to_bytes(len(progress))
            run_between_fences(sample, side)

    failed = status_of_child(run_all)
    return samples[int.from_bytes(progress[:])].name if failed else ""


@each_side
@pytest.mark.parametrize("operator", OPERATORS)
def test_calls_stay_within_their_memory(operator: str, side: Side, progress: mmap.mmap) -> None:
    assert died_in(list(REGISTRY_SAMPLES[operator]), side, progress) == ""


@each_side
@pytest.mark.parametrize("algorithm", [Algorithm.COLUMNS, Algorithm.DIRECT])
def test_algorithms_that_are_rarely_chosen_stay_within_their_memory(
    monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm, side: Side, progress: mmap.mmap
) -> None:
    def choose(gradients: Gradients, options: PlanOptions) -> Algorithm:
        del gradients, options
        return algorithm

    monkeypatch.setattr(gradient_plan, "choose", choose)
    samples = [s for s in REGISTRY_SAMPLES["convolution_backward"] if s.profile != "reference"]
    assert died_in(samples, side, progress) == ""


@each_side
def test_a_read_over_the_fence_is_found(side: Side) -> None:
    memory = fenced(np.zeros(12, np.uint8), side)
    outside = memory.ctypes.data + (-1 if side is Side.BEFORE else 12)

    assert status_of_child(lambda: ctypes.string_at(outside, 1)) == -signal.SIGSEGV
