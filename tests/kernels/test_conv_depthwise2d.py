"""aclnnConvDepthwise2d against naive sums, the vendor's values and aclnnConvolution."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute, is_transformed, plan_of, results
from kernels.oracles.conv_depthwise2d import expected
from kernels.oracles.expectation import DOUBLE_UNIT, assert_meets
from kernels.samples.conv_depthwise2d import SAMPLES, filters
from kernels.samples.convolution_backward import convolution
from kernels.samples.layers import layer
from kernels.samples.sample import FILLER, Sample
from opserve_kernels.tensor import DataType

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
laws = settings(max_examples=60, deadline=None, derandomize=True)
_PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))
_STEPS = st.fixed_dictionaries(
    {
        "stride": _PAIRS,
        "dilation": _PAIRS,
        "padding": st.tuples(st.integers(0, 2), st.integers(0, 2)),
    }
)


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
    steps=_STEPS,
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


@laws
@given(steps=_STEPS, kernel=_PAIRS, channels=st.integers(1, 4), multiplier=st.integers(1, 3))
def test_it_is_adjoint_to_the_gradients_of_a_grouped_convolution(
    steps: dict[str, Any], kernel: tuple[int, int], channels: int, multiplier: int
) -> None:
    """<g, out> = <grad_input, self> + <grad_bias, bias> = <grad_weight, weight> + the same."""
    image, double = (2, channels, 8, 9), DataType.DOUBLE
    members: dict[str, Any] = {"kernel": kernel, "multiplier": multiplier, **steps}
    forward = filters("law", image, dtype=double, profile="reference", **members)
    weight = forward.inputs["weight"].shape
    backward = convolution(
        "law", image, weight, groups=channels, dtypes=(double,) * 3, profile="reference", **steps
    )
    given_, buffers = backward.arrays(), forward.buffers()
    bias = forward.inputs["bias"].view(buffers["bias"])
    for name, other in (("self", "input"), ("weight", "weight")):
        forward.inputs[name].view(buffers[name])[...] = given_[other]

    execute(forward, buffers)
    found = results(backward)

    grad, out = given_["grad_output"], forward.outputs["out"].view(buffers["out"])
    biases = np.sum(found["grad_bias"] * bias)
    # No element of out is larger than this.
    largest = np.sum(np.abs(given_["weight"])) * np.max(np.abs(given_["input"]))
    largest += np.max(np.abs(bias))
    bound = (
        2 * out.size * (weight[2] * weight[3] + 1) * DOUBLE_UNIT * np.sum(np.abs(grad)) * largest
    )
    for name in ("input", "weight"):
        product = np.sum(found[f"grad_{name}"] * given_[name]) + biases
        assert abs(np.sum(grad * out) - product) <= bound
