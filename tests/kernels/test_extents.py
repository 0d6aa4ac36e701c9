"""Positions beyond 64 bits are refused; just below, the numbers are right."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import plan_of, results
from kernels.oracles import convolution_backward, im2col_backward
from kernels.oracles.expectation import Expectation, assert_meets
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample, TensorSample, Values
from opserve_kernels.errors import MOST_EXTENT, InvalidArgument
from opserve_kernels.status import Status

VAST = MOST_EXTENT // 8
BELOW = [(VAST, VAST), (VAST, 2 * VAST), (1 << 40, 1 << 42), (3, 6)]
BEYOND = [(2**61, 2**63 - 1), (2**61, 2**62), (2**62, 2**62 - 1), (2**63 - 1, 2**62)]
without_limits = pytest.mark.parametrize("profile", ["reference", "ascend910"])


def convolved(profile: str, stride: int, padding: int) -> Sample:
    """A kernel of one tap at as many places as stride and padding leave of a row of five."""
    changes: dict[str, Any] = {"stride": (stride,), "padding": (padding,)}
    name = f"{profile} {stride} {padding}"
    values, precision = Values.INTEGERS, 2 if profile == "ascend910" else 0
    return convolution(
        name,
        (1, 1, 5),
        (1, 1, 1),
        profile=profile,
        values=values,
        cube_math_type=precision,
        **changes,
    )


def summed(profile: str, stride: int, padding: int) -> Sample:
    """Blocks of one pixel on a row of one pixel."""
    places = 2 * padding // stride + 1
    return Sample(
        name=f"{profile} {stride} {padding}",
        operator="im2col_backward",
        profile=profile,
        tensors={
            "grad_output": TensorSample(shape=(1, places), values=Values.ONES),
            "out": TensorSample(shape=(1, 1, 1)),
        },
        scalars={
            "input_size": (1, 1),
            "kernel_size": (1, 1),
            "dilation": (1, 1),
            "padding": (0, padding),
            "stride": (1, stride),
        },
    )


def assert_right(sample: Sample, expected: Mapping[str, Expectation]) -> None:
    found = results(sample)
    for name, expectation in expected.items():
        assert_meets(found[name], expectation)
    assert any(np.any(expectation.value != 0) for expectation in expected.values())


def assert_refused(sample: Sample) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    assert refusal.value.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    assert refusal.value.parameter == "call"


@without_limits
@pytest.mark.parametrize(("stride", "padding"), BELOW)
def test_a_convolution_just_below_is_right(profile: str, stride: int, padding: int) -> None:
    sample = convolved(profile, stride, padding)
    assert_right(sample, convolution_backward.expected(sample, sample.buffers()))


@without_limits
@pytest.mark.parametrize(("stride", "padding"), BELOW)
def test_a_fold_just_below_is_right(profile: str, stride: int, padding: int) -> None:
    sample = summed(profile, stride, padding)
    assert_right(sample, im2col_backward.expected(sample, sample.buffers()))


@without_limits
@pytest.mark.parametrize(("stride", "padding"), BEYOND)
def test_values_beyond_the_limits_are_refused(profile: str, stride: int, padding: int) -> None:
    assert_refused(convolved(profile, stride, padding))
    assert_refused(summed(profile, stride, padding))


@pytest.mark.parametrize("stride", [MOST_EXTENT + 8, 2**63 - 1])
def test_a_stride_of_one_entry_that_a_plan_would_state_is_refused_beyond(stride: int) -> None:
    sample = convolution("far entries", (1, 1, 5), (1, 1, 1))
    input_ = sample.tensors["input"]
    assert input_ is not None
    assert_refused(sample.but("refused", input=replace(input_, strides=(stride, 5, 1))))
    below = sample.but("planned", input=replace(input_, strides=(MOST_EXTENT, 5, 1)))
    assert plan_of(below).units > 0
