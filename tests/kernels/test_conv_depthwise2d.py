"""aclnnConvDepthwise2d against naive sums, the vendor's values and aclnnConvolution."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute, is_transformed, plan_of, results
from kernels.oracles.conv_depthwise2d import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples.conv_depthwise2d import SAMPLES, filters
from kernels.samples.layers import layer
from kernels.samples.sample import FILLER, Sample

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
laws = settings(max_examples=60, deadline=None, derandomize=True)
_PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@pytest.mark.parametrize(
    "sample", [*SAMPLES, *_ON_REFERENCE], ids=lambda sample: f"{sample.name} on {sample.profile}"
)
def test_outputs_are_within_the_bound_of_their_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers, transformed=is_transformed(sample))

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


def test_vendors_sample_program_computes_its_derived_value() -> None:
    for profile in ("ascend910b", "ascend910", "ascend310p", "ascend310b", "reference"):
        output = results(replace(_BY_NAME["vendor's"], profile=profile))["out"]
        assert np.all(output == 2)


def test_an_empty_call_needs_nothing_and_leaves_out_as_it_was() -> None:
    for name in ("no entries", "no channels"):
        sample = _BY_NAME[name]
        buffers = sample.buffers()
        plan = plan_of(sample)

        execute(sample, buffers)

        assert (plan.workspace_size, plan.units) == (0, 0)
        assert np.all(buffers["out"] == FILLER)


@laws
@given(
    steps=st.fixed_dictionaries(
        {
            "stride": _PAIRS,
            "dilation": _PAIRS,
            "padding": st.tuples(st.integers(0, 2), st.integers(0, 2)),
        }
    ),
    kernel=_PAIRS,
    channels=st.integers(1, 5),
    multiplier=st.integers(1, 3),
    has_bias=st.booleans(),
    profile=st.sampled_from(["ascend910b", "reference"]),
)
def test_it_is_a_convolution_with_a_group_for_each_channel(
    steps: dict[str, Any],
    kernel: tuple[int, int],
    channels: int,
    multiplier: int,
    profile: str,
    *,
    has_bias: bool,
) -> None:
    image = (2, channels, 8, 9)
    members: dict[str, Any] = {"multiplier": multiplier, "has_bias": has_bias, **steps}
    depthwise = filters("law", image, kernel=kernel, profile=profile, **members)
    weight = depthwise.inputs["weight"].shape
    grouped = layer("", image, weight, groups=channels, bias=has_bias, profile=profile, **steps)
    buffers, others = depthwise.buffers(), grouped.buffers()
    for name, other in (("self", "input"), ("weight", "weight"), ("bias", "bias")):
        if name in depthwise.inputs:
            others[other][:] = buffers[name]

    execute(depthwise, buffers)
    execute(grouped, others)

    np.testing.assert_array_equal(buffers["out"], others["output"])
