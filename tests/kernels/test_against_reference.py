"""Any small convolution gives the bits of the reference device, in any slices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute, results
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample, Values
from opserve_kernels.operator import PlanOptions

CHANNELS = st.sampled_from([1, 3, 4, 8, 9, 16, 33])


def per_axis(rank: int, least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(least, most)] * rank)


@st.composite
def calls(draw: st.DrawFn) -> Sample:
    """Operands are small integers: every order of adding their products is exact."""
    rank, groups, transposed = (
        draw(st.integers(1, 3)),
        draw(st.sampled_from([1, 1, 1, 2])),
        draw(st.booleans()),
    )
    most = draw(st.sampled_from([2, 4]))  # small numbers meet each other's edges more often
    kernel, stride = draw(per_axis(rank, 1, most)), draw(per_axis(rank, 1, most))
    padding, dilation = draw(per_axis(rank, 0, most // 2)), draw(per_axis(rank, 1, most - 1))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [1 if transposed else max(1, r - 2 * p) for r, p in zip(reach, padding, strict=True)]
    size = tuple(draw(st.integers(low, low + 1) | st.integers(low, low + 8)) for low in least)
    extra = tuple(draw(st.integers(0, s - 1)) if transposed else 0 for s in stride)
    if transposed:
        sizes = zip(size, stride, padding, reach, extra, strict=True)
        if any((n - 1) * s - 2 * p + r + e < 1 for n, s, p, r, e in sizes):
            padding = (0,) * rank
    ins, outs = draw(CHANNELS), draw(CHANNELS)
    weight = (groups * outs, ins, *kernel)
    channels = groups * outs if transposed else groups * ins
    arguments: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "transposed": transposed,
        "output_padding": extra,
        "groups": groups,
    }
    input_ = (draw(st.integers(1, 3)), channels, *size)
    name = f"{input_} {weight} {arguments}"
    return convolution(name, input_, weight, values=Values.INTEGERS, **arguments)


@settings(deadline=None, max_examples=150)
@given(sample=calls())
def test_device_and_reference_device_agree(sample: Sample) -> None:
    assert_agreement(sample)


@pytest.mark.slow
@settings(deadline=None, max_examples=1500)
@given(sample=calls())
def test_device_and_reference_device_agree_on_many_calls(sample: Sample) -> None:
    assert_agreement(sample)


def assert_agreement(sample: Sample) -> None:
    found = results(sample, options=PlanOptions())
    right = results(replace(sample, profile="reference"))
    for name, array in right.items():
        np.testing.assert_array_equal(found[name], array, name)


@settings(deadline=None, max_examples=100)
@given(sample=calls(), units=st.integers(1, 5))
def test_slices_make_no_difference(sample: Sample, units: int) -> None:
    whole, sliced = sample.buffers(), sample.buffers()
    execute(sample, whole)
    execute(sample, sliced, units=units)
    for name, buffer in whole.items():
        np.testing.assert_array_equal(sliced[name], buffer, name)
