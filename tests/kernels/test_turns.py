"""Stages of a depthwise call that take turns: each is what it would be alone."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kernels.execution import (
    ANY_PLAN,
    GUARD,
    GUARD_BYTES,
    NAN_BYTE,
    execute,
    kernel_of,
    plan_of,
    results,
    run_units,
)
from kernels.oracles.convolution_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample
from opserve_kernels import gradient_plan, stages
from opserve_kernels.algorithms.depthwise import plan as depthwise_plan
from opserve_kernels.registry import OPERATORS
from opserve_kernels.stages import INTERLEAVE
from opserve_kernels.tensor import DataType

CHANNELS = 8
APART = replace(ANY_PLAN, workspace_limit=1 << 40)
HALVES = (DataType.FLOAT16,) * 3
SAMPLES = (
    convolution("in place", (5, CHANNELS, 9, 20), (CHANNELS, 1, 3, 3), groups=CHANNELS),
    convolution(
        "in place, of 16 bits",
        (5, CHANNELS, 6, 7),
        (CHANNELS, 1, 5, 5),
        groups=CHANNELS,
        padding=(2, 2),
        dtypes=HALVES,
    ),
    convolution(
        "of unlike blocks", (2, 4, 13, 11), (4, 1, 3, 3), groups=4, stride=(2, 2), padding=(1, 1)
    ),
    convolution("cut to rows", (2, 3, 40, 9), (6, 1, 7, 2), groups=3, padding=(3, 0)),
    convolution("transposed", (2, 4, 5, 6), (4, 1, 3, 3), groups=4, transposed=True, stride=(2, 2)),
    convolution("of one channel", (3, 1, 8, 9), (1, 1, 3, 3)),
)
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


@pytest.fixture(autouse=True)
def small_units_take_turns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_plan, "_CACHED_VALUES", 0)
        patch.setattr(depthwise_plan, "_UNIT_PRODUCTS", 1)
        patch.setattr(depthwise_plan, "_COPY_ELEMENTS", 300)
        yield


@pytest.mark.parametrize("most_turns", [1, 3, 4096])
@pytest.mark.parametrize("units", [None, 1, 3])
@each_sample
def test_gradients_that_take_turns_are_within_the_bound(
    sample: Sample, units: int | None, most_turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_MOST_TURNS", most_turns)
    assert plan_of(sample).parameters[0] == INTERLEAVE
    buffers = sample.buffers()
    guarded = execute(sample, buffers, units=units)

    for name, expectation in expected(sample, buffers).items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)
    assert np.all(guarded[:GUARD_BYTES] == GUARD)
    assert np.all(guarded[-GUARD_BYTES:] == GUARD)


@each_sample
def test_they_equal_stages_one_by_one_to_the_bit(sample: Sample) -> None:
    assert plan_of(sample, APART).parameters[0] != INTERLEAVE
    apart = results(sample, options=APART)
    for name, array in results(sample).items():
        np.testing.assert_array_equal(array, apart[name], name)


@each_sample
def test_a_limit_on_the_workspace_has_stages_share_it(sample: Sample) -> None:
    assert plan_of(sample, APART).workspace_size < plan_of(sample).workspace_size


def test_after_half_the_units_both_gradients_have_about_half_their_channels() -> None:
    sample = SAMPLES[0]
    plan, operator = plan_of(sample), OPERATORS[sample.operator]
    buffers = sample.buffers()
    for name in sample.outputs:
        buffers[name][:] = NAN_BYTE
    tensors = [buffers[name] for name in operator.tensor_fields]
    workspace = np.zeros(plan.workspace_size, np.uint8)

    run_units(replace(plan, shares=(plan.units // 2,)), kernel_of(sample), tensors, workspace)

    found = {name: tensor.view(buffers[name]) for name, tensor in sample.outputs.items()}
    for gradient in (np.moveaxis(found["grad_input"], 1, 0), found["grad_weight"]):
        done = sum(not np.any(np.isnan(channel)) for channel in gradient)
        assert abs(done - CHANNELS // 2) <= 1
