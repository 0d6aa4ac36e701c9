"""Kernels read and write within the tensors and the workspace, to the last byte of each."""

import ctypes
import mmap
import signal
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import masked, plan_of, run_units
from kernels.fences import Side, fenced, status_of_child
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import Bytes, Sample
from kernels.test_against_reference import calls
from opserve_kernels import gradient_plan
from opserve_kernels.algorithms import direct_plan, winograd_cost, winograd_plan
from opserve_kernels.algorithms.product import DOTS, FLAT, OUTER, PACKED
from opserve_kernels.gradient_plan import Algorithm
from opserve_kernels.gradients import Gradients
from opserve_kernels.operator import PlanOptions
from opserve_kernels.registry import OPERATORS

CONVOLUTIONS = [
    sample for sample in REGISTRY_SAMPLES["convolution_backward"] if sample.profile != "reference"
]
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


def always(answer: int) -> Callable[[object], int]:
    """A choice that is no choice."""

    def choose(_: object) -> int:
        return answer

    return choose


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
@pytest.mark.parametrize("algorithm", [Algorithm.COLUMNS, Algorithm.DIRECT, Algorithm.WINOGRAD])
def test_algorithms_that_are_rarely_chosen_stay_within_their_memory(
    monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm, side: Side, progress: mmap.mmap
) -> None:
    def choose(gradients: Gradients, options: PlanOptions) -> Algorithm:
        del options
        fits = winograd_plan.fits(gradients.convolution)
        return algorithm if fits or algorithm != Algorithm.WINOGRAD else Algorithm.DIRECT

    monkeypatch.setattr(gradient_plan, "choose", choose)
    for name in ("image_pays", "output_pays", "weight_pays"):
        monkeypatch.setattr(winograd_cost, name, always(1))
    assert died_in(CONVOLUTIONS, side, progress) == ""


@each_side
@pytest.mark.parametrize(
    ("chooser", "algorithm"),
    [("choose", PACKED), ("choose", FLAT), ("choose_weight", DOTS), ("choose_weight", OUTER)],
)
def test_direct_algorithms_stay_within_their_memory(
    monkeypatch: pytest.MonkeyPatch, chooser: str, algorithm: int, side: Side, progress: mmap.mmap
) -> None:
    monkeypatch.setattr(direct_plan, chooser, always(algorithm))
    assert died_in(CONVOLUTIONS, side, progress) == ""


@settings(deadline=None, max_examples=100)
@given(sample=calls(), side=st.sampled_from(Side))
def test_any_call_stays_within_its_memory(sample: Sample, side: Side) -> None:
    assert status_of_child(lambda: run_between_fences(sample, side)) == 0


@each_side
def test_a_read_over_the_fence_is_found(side: Side) -> None:
    memory = fenced(np.zeros(12, np.uint8), side)
    outside = memory.ctypes.data + (-1 if side is Side.BEFORE else 12)

    assert status_of_child(lambda: ctypes.string_at(outside, 1)) == -signal.SIGSEGV
