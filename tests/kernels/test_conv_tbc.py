"""aclnnConvTbc against naive sums, the vendor's values, aclnnConvolution and its own gradients."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute, is_transformed, plan_of, results
from kernels.oracles.conv_tbc import expected
from kernels.oracles.expectation import DOUBLE_UNIT, assert_meets
from kernels.samples.conv_tbc import SAMPLES, times
from kernels.samples.conv_tbc_backward import tbc
from kernels.samples.layers import layer
from kernels.samples.sample import FILLER, Sample
from opserve_kernels.tensor import DataType

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
laws = settings(max_examples=60, deadline=None, derandomize=True)


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
    for profile in ("ascend910b", "ascend910", "ascend310p", "reference"):
        output = results(replace(_BY_NAME["vendor's"], profile=profile))["out"]
        assert np.all(output == 7)


def test_a_call_without_products_is_its_bias() -> None:
    for name in ("no channels in", "no times"):
        sample = _BY_NAME[name]
        buffers = sample.buffers()
        bias = sample.inputs["bias"].view(buffers["bias"])

        execute(sample, buffers)

        out = sample.outputs["out"].view(buffers["out"])
        np.testing.assert_array_equal(out, np.broadcast_to(bias, out.shape))


def test_a_call_without_results_needs_nothing_and_leaves_out_as_it_was() -> None:
    sample = _BY_NAME["no entries"]
    buffers = sample.buffers()
    plan = plan_of(sample)

    execute(sample, buffers)

    assert (plan.workspace_size, plan.units) == (0, 0)
    assert np.all(buffers["out"] == FILLER)


@laws
@given(
    length=st.integers(4, 12),
    batch=st.integers(1, 3),
    inputs=st.integers(1, 6),
    outputs=st.integers(1, 6),
    taps=st.integers(1, 4),
    pad=st.integers(0, 3),
    profile=st.sampled_from(["ascend910b", "reference"]),
)
def test_it_is_a_convolution_of_permuted_axes(  # noqa: PLR0913, PLR0917  # the sizes of a call
    length: int, batch: int, inputs: int, outputs: int, taps: int, pad: int, profile: str
) -> None:
    tbc = times("law", (length, batch, inputs), (taps, inputs, outputs), pad=pad, profile=profile)
    plain = layer(
        "", (batch, inputs, length), (outputs, inputs, taps), padding=(pad,), profile=profile
    )
    buffers, others = tbc.buffers(), plain.buffers()
    for name, other, axes in (
        ("self", "input", (1, 2, 0)),
        ("weight", "weight", (2, 1, 0)),
        ("bias", "bias", (0,)),
    ):
        array = tbc.inputs[name].view(buffers[name])
        plain.inputs[other].view(others[other])[...] = array.transpose(axes)

    execute(tbc, buffers)
    execute(plain, others)

    out = tbc.outputs["out"].view(buffers["out"])
    output = plain.outputs["output"].view(others["output"])
    np.testing.assert_allclose(out.transpose(1, 2, 0), output, rtol=1e-4, atol=1e-5)


@laws
@given(
    length=st.integers(4, 12),
    batch=st.integers(1, 3),
    channels=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    taps=st.integers(1, 4),
    pad=st.integers(0, 3),
)
def test_it_is_adjoint_to_its_gradients(
    length: int, batch: int, channels: tuple[int, int], taps: int, pad: int
) -> None:
    """<g, out> = <grad_input, self> + <grad_bias, bias> = <grad_weight, weight> + the same."""
    inputs, outputs = channels
    shapes = (length, batch, inputs), (taps, inputs, outputs)
    doubles = (DataType.DOUBLE,) * 4
    forward = times("law", *shapes, pad=pad, dtypes=doubles[:2], profile="reference")
    backward = tbc("law", *shapes, pad, dtypes=doubles, profile="reference")
    given_ = backward.arrays()
    buffers = forward.buffers()
    for name, other in (("self", "input"), ("weight", "weight"), ("bias", "bias")):
        forward.inputs[name].view(buffers[name])[...] = given_[other]

    execute(forward, buffers)
    found = results(backward)

    grad, out = given_["self"], forward.outputs["out"].view(buffers["out"])
    biases = np.sum(found["grad_bias"] * given_["bias"])
    # No element of out is larger than this.
    largest = np.sum(np.abs(given_["weight"])) * np.max(np.abs(given_["input"]))
    largest += np.max(np.abs(given_["bias"]))
    bound = 2 * out.size * (taps * inputs + 1) * DOUBLE_UNIT * np.sum(np.abs(grad)) * largest
    for name in ("input", "weight"):
        product = np.sum(found[f"grad_{name}"] * given_[name]) + biases
        assert abs(np.sum(grad * out) - product) <= bound
