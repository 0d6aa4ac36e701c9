"""Shares of a call write its results once, and need nothing of each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import (
    ANY_PLAN,
    GUARD,
    GUARD_BYTES,
    is_transformed,
    kernel_of,
    masked,
    plan_of,
    results,
)
from kernels.oracles.expectation import assert_meets
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Bytes, Sample, Values
from kernels.test_against_reference import calls
from opserve_kernels import shares
from opserve_kernels.operator import PARAMETERS_LIMIT, Plan, PlanOptions
from opserve_kernels.registry import OPERATORS
from opserve_kernels.shares import even
from opserve_server.settings import THREADS_LIMIT

THREADS = 3
ON_DEVICES = [
    sample
    for samples in REGISTRY_SAMPLES.values()
    for sample in samples
    if sample.profile != "reference"
]
each_sample = pytest.mark.parametrize(
    "sample", ON_DEVICES, ids=lambda sample: f"{sample.operator}: {sample.name}"
)


@pytest.fixture(scope="module", autouse=True)
def no_call_is_too_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "_LEAST_COST", 0)
        patch.setattr(
            import_module("opserve_kernels.operators.im2col_backward.plan"), "_LEAST_VALUES", 0
        )
        yield


@dataclass(frozen=True)
class Prepared:
    """A call that is planned for several threads, in memory of its own."""

    plan: Plan
    kernel: Any
    buffers: Mapping[str, Bytes]
    tensors: list[Bytes]
    guarded: Bytes

    @staticmethod
    def of(
        sample: Sample,
        threads: int = THREADS,
        *,
        before: int = GUARD,
        options: PlanOptions = ANY_PLAN,
    ) -> "Prepared":
        """Outputs and workspace are full of one byte before."""
        operator = OPERATORS[sample.operator]
        plan = plan_of(sample, replace(options, threads=threads))
        buffers = sample.buffers()
        for name in sample.outputs:
            buffers[name][:] = before
        nothing = np.empty(0, np.uint8)
        tensors = [buffers.get(name, nothing) for name in operator.tensor_fields]
        for place in masked(sample):
            tensors[place] = nothing
        return Prepared(
            plan=plan,
            kernel=import_module(kernel_of(sample)),
            buffers=buffers,
            tensors=tensors,
            guarded=np.full(plan.workspace_size + 2 * GUARD_BYTES, before, np.uint8),
        )

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last unit of each share."""
        return list(pairwise(accumulate(self.plan.shares, initial=0)))

    def run(self, first: int, last: int) -> None:
        workspace = self.guarded[GUARD_BYTES : GUARD_BYTES + self.plan.workspace_size]
        parameters = np.array(self.plan.parameters, np.int64)
        self.kernel.run(parameters, self.tensors, workspace, first, last)

    def run_by_turns(self) -> None:
        """A unit of each share after the other, the last share first."""
        for step in range(max(self.plan.shares, default=0)):
            for first, last in reversed(self.bounds):
                if first + step < last:
                    self.run(first + step, first + step + 1)

    def results(self, sample: Sample) -> dict[str, NDArray[Any]]:
        return {name: tensor.view(self.buffers[name]) for name, tensor in sample.outputs.items()}


def written_by_each_share(sample: Sample) -> list[list[NDArray[np.bool_]]]:
    """Which bytes of every output and of the workspace each share writes, when it runs alone.

    A byte that is written has one of two values less than two memories that differ in every byte.
    """
    written: list[list[NDArray[np.bool_]]] = []
    for share in range(len(plan_of(sample, replace(ANY_PLAN, threads=THREADS)).shares)):
        runs = [Prepared.of(sample, before=before) for before in (0x00, 0xFF)]
        for run in runs:
            run.run(*run.bounds[share])
        memories = [[*(run.buffers[name] for name in sample.outputs), run.guarded] for run in runs]
        written.append([(a != 0x00) | (b != 0xFF) for a, b in zip(*memories, strict=True)])
    return written


@each_sample
def test_every_byte_belongs_to_one_share(sample: Sample) -> None:
    by_share = written_by_each_share(sample)
    for areas in zip(*by_share, strict=True):
        assert np.all(sum(area.astype(int) for area in areas) <= 1)


@each_sample
def test_shares_in_any_order_are_within_the_bound(sample: Sample) -> None:
    oracle = import_module(f"kernels.oracles.{sample.operator}")
    call = Prepared.of(sample)
    expectations = oracle.expected(sample, call.buffers)
    call.run_by_turns()
    found = call.results(sample)
    for name, expectation in expectations.items():
        assert_meets(found[name], expectation)
    assert np.all(call.guarded[:GUARD_BYTES] == GUARD)
    assert np.all(call.guarded[-GUARD_BYTES:] == GUARD)


@settings(deadline=None, max_examples=60)
@given(sample=calls(), threads=st.integers(2, 5))
def test_any_number_of_threads_computes_the_result_of_one(sample: Sample, threads: int) -> None:
    call = Prepared.of(sample, threads, options=PlanOptions())
    call.run_by_turns()
    found = call.results(sample)
    for name, array in results(sample, options=PlanOptions()).items():
        np.testing.assert_array_equal(found[name], array, name)


@pytest.mark.parametrize("threads", [2, 3, 4, 8])
@pytest.mark.parametrize("channels", [(16, 16), (64, 3), (20, 64)])
def test_direct_sums_have_the_same_bytes_on_any_number_of_threads(
    channels: tuple[int, int], threads: int
) -> None:
    inputs, outputs = channels
    sample = convolution("", (8, inputs, 32, 32), (outputs, inputs, 3, 3), padding=(1, 1))
    options = PlanOptions()
    call = Prepared.of(sample, threads, options=options)
    assert len(call.plan.shares) > 1
    call.run_by_turns()
    found = call.results(sample)
    for name, array in results(sample, options=options).items():
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_a_call_has_as_many_shares_as_threads_where_it_can_be_cut(threads: int) -> None:
    sample = convolution("", (8, 16, 9, 9), (16, 16, 3, 3), values=Values.INTEGERS)
    assert len(plan_of(sample, replace(ANY_PLAN, threads=threads)).shares) == threads


def test_a_plan_for_as_many_threads_as_a_device_may_have_fits_a_message() -> None:
    for sample in ON_DEVICES:
        plan = plan_of(sample, replace(ANY_PLAN, threads=THREADS_LIMIT))
        assert len(plan.parameters) <= PARAMETERS_LIMIT, sample.name


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_gradients_by_transforms_are_cut_for_up_to_8_threads(threads: int) -> None:
    sample = convolution("", (64, 64, 9, 9), (64, 64, 3, 3), padding=(1, 1))
    assert is_transformed(sample)
    assert len(plan_of(sample, replace(ANY_PLAN, threads=threads)).shares) == threads


@pytest.mark.parametrize("threads", [32, 64])
def test_a_plan_that_no_message_could_hold_has_one_share(threads: int) -> None:
    sample = convolution("", (64, 64, 9, 9), (64, 64, 3, 3), padding=(1, 1))
    ways = ("image: winograd", "weight: dots")
    asked = replace(ANY_PLAN, threads=threads, algorithms=ways)
    plan = plan_of(sample, asked)
    assert len(plan.shares) == 1
    assert len(plan.parameters) <= PARAMETERS_LIMIT


def test_a_small_call_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = convolution("", (1, 4, 5, 5), (4, 4, 3, 3), values=Values.INTEGERS)
    monkeypatch.setattr(shares, "_LEAST_COST", 1e6)
    assert len(plan_of(sample, PlanOptions(threads=2)).shares) == 1


@pytest.mark.parametrize(("least", "cut_into"), [(4 * 24 * 16, 2), (4 * 24 * 16 + 1, 1)])
def test_columns_are_cut_from_a_least_number_on(
    monkeypatch: pytest.MonkeyPatch, least: int, cut_into: int
) -> None:
    sample = image("", (4, 6, 5, 5), (2, 2))
    assert sample.inputs["grad_output"].shape == (4, 24, 16)
    plan_module = import_module("opserve_kernels.operators.im2col_backward.plan")
    monkeypatch.setattr(plan_module, "_LEAST_VALUES", least)
    assert len(plan_of(sample, PlanOptions(threads=2)).shares) == cut_into


@given(st.integers(1, 100), st.integers(1, 9), st.sampled_from([1, 2, 16]))
def test_even_parts_differ_by_a_step_at_most(count: int, parts: int, step: int) -> None:
    bounds = even(count * step, parts, step)
    sizes = [last - first for first, last in bounds]
    assert (bounds[0][0], bounds[-1][1]) == (0, count * step)
    assert all(last == first for (_, last), (first, _) in pairwise(bounds))
    assert len(bounds) == min(parts, count)
    assert max(sizes) - min(sizes) in {0, step}
    assert all(size % step == 0 for size in sizes)
