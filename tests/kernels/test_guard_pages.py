"""Kernels read and write within the tensors and the workspace, to the last byte of each."""

import ctypes
import mmap
import signal
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.algorithms.forced import CALLS, forced
from kernels.execution import ANY_PLAN, kernel_of, masked, plan_of, run_units
from kernels.guard_pages import Side, beside_guard_pages, status_of_child
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.sample import Bytes, Sample
from kernels.test_against_reference import calls
from kernels.test_batch_consistency import BATCH, BY_COLUMNS
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.operator import PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, kernels_of

Call = tuple[Sample, PlanOptions]
CHOOSING = [
    sample
    for samples in REGISTRY_SAMPLES.values()
    for sample in samples
    if plan_of(sample).algorithms
]
ASKED_FOR = [way for way in Algorithm if way is not Algorithm.COLUMNS_BY_ENTRY]
"""Algorithms that a caller may choose by name."""
each_side = pytest.mark.parametrize("side", list(Side))


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Loaded before children are forked, as the service does."""
    for profile in PROFILES:
        for kernel in kernels_of(profile).values():
            import_module(kernel)


@pytest.fixture
def progress() -> Iterator[mmap.mmap]:
    """The number of calls that a child has begun, in memory that outlives it."""
    with mmap.mmap(-1, 8) as shared:
        yield shared


def run_beside_guard_pages(sample: Sample, options: PlanOptions, side: Side) -> None:
    operator, plan = OPERATORS[sample.operator], plan_of(sample, options)
    buffers: Mapping[str, Bytes] = sample.buffers()
    nothing = np.empty(0, np.uint8)
    tensors = [
        beside_guard_pages(buffers[name], side)
        if name in buffers and place not in masked(sample)
        else nothing
        for place, name in enumerate(operator.tensor_fields)
    ]
    workspace = beside_guard_pages(np.full(plan.workspace_size, 0xFF, np.uint8), side)
    run_units(plan, kernel_of(sample), tensors, workspace)


def died_in(calls: Sequence[Call], side: Side, progress: mmap.mmap) -> str:
    """The name of the call that a process was in when it ended too early; else empty."""

    def run_all() -> None:
        for index, call in enumerate(calls):
            progress[:] = index.to_bytes(len(progress))
            run_beside_guard_pages(*call, side)

    failed = status_of_child(run_all)
    return calls[int.from_bytes(progress[:])][0].name if failed else ""


@each_side
@pytest.mark.parametrize("operator", OPERATORS)
def test_calls_stay_within_their_memory(operator: str, side: Side, progress: mmap.mmap) -> None:
    calls = [(sample, ANY_PLAN) for sample in REGISTRY_SAMPLES[operator]]
    assert died_in(calls, side, progress) == ""


@each_side
def test_columns_by_entry_stay_within_their_memory(side: Side, progress: mmap.mmap) -> None:
    assert died_in([(sample, BATCH) for sample in BY_COLUMNS], side, progress) == ""


@each_side
@pytest.mark.parametrize("algorithm", ASKED_FOR)
def test_a_requested_algorithm_stays_within_its_memory(
    algorithm: Algorithm, side: Side, progress: mmap.mmap
) -> None:
    samples = (*CALLS[algorithm], *CHOOSING)
    calls = [(sample, forced(sample, algorithm)) for sample in samples]
    assert died_in([call for call in calls if call[1].algorithms], side, progress) == ""


@settings(deadline=None, max_examples=20)
@given(sample=calls(), side=st.sampled_from(Side))
def test_any_call_stays_within_its_memory(sample: Sample, side: Side) -> None:
    assert_stays_within_its_memory(sample, side)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(sample=calls(), side=st.sampled_from(Side))
def test_each_of_many_calls_stays_within_its_memory(sample: Sample, side: Side) -> None:
    assert_stays_within_its_memory(sample, side)


def assert_stays_within_its_memory(sample: Sample, side: Side) -> None:
    assert status_of_child(lambda: run_beside_guard_pages(sample, ANY_PLAN, side)) == 0


@each_side
def test_a_read_over_the_fence_is_found(side: Side) -> None:
    memory = beside_guard_pages(np.zeros(12, np.uint8), side)
    outside = memory.ctypes.data + (-1 if side is Side.BEFORE else 12)

    assert status_of_child(lambda: ctypes.string_at(outside, 1)) == -signal.SIGSEGV
