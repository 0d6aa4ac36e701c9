"""aclnnConvolutionBackward against the float64 oracle and the values that its rules imply."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from kernels.execution import execute, results
from kernels.oracles.convolution_backward import expected, geometry_of, gradients
from kernels.oracles.expectation import assert_meets
from kernels.oracles.rounding import round_to_hf32
from kernels.samples.convolution_backward import SAMPLES, convolution
from kernels.samples.sample import NUMPY_DTYPES, Array, Sample, Values
from opserve_kernels.tensor import DataType

_BY_NAME = {sample.name: sample for sample in SAMPLES}


def _of_integers(sample: Sample) -> Sample:
    """The same call with small integers: every product and sum is exact in float32."""
    tensors = {
        name: replace(tensor, values=Values.INTEGERS) for name, tensor in sample.inputs.items()
    }
    return sample.but(sample.name, **tensors)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_gradients_are_within_the_bound_of_their_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


@pytest.mark.parametrize(
    "sample", [_of_integers(sample) for sample in SAMPLES], ids=lambda sample: sample.name
)
def test_gradients_of_small_integers_are_exact(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        tensor = sample.outputs[name]
        exact = expectation.value.astype(NUMPY_DTYPES[tensor.dtype])
        np.testing.assert_array_equal(tensor.view(buffers[name]), exact, name)


@pytest.mark.parametrize(
    ("name", "grad_input", "grad_weight", "grad_bias"),
    [("vendor's 2-D", 2, 98, 98), ("vendor's 1-D", 2, 12, 12), ("vendor's 3-D", 2, 686, 686)],
)
def test_vendors_sample_programs_give_their_derived_values(
    name: str, grad_input: float, grad_weight: float, grad_bias: float
) -> None:
    outputs = results(_BY_NAME[name])

    assert np.all(outputs["grad_input"] == grad_input)
    assert np.all(outputs["grad_weight"] == grad_weight)
    assert np.all(outputs["grad_bias"] == grad_bias)


def test_infinite_weight_reaches_no_further_than_its_taps() -> None:
    sample = convolution("inf", (1, 1, 4, 4), (1, 1, 3, 3), padding=(1, 1), transposed=True)
    buffers = sample.buffers()
    sample.inputs["weight"].view(buffers["weight"])[0, 0, 0, 0] = np.inf
    sample.inputs["grad_output"].view(buffers["grad_output"])[...] = 1

    execute(sample, buffers)

    grad_input: Array = sample.outputs["grad_input"].view(buffers["grad_input"])[0, 0]
    assert np.all(np.isposinf(grad_input[1:, 1:]))
    assert np.all(np.isfinite(grad_input[0])), "the tap above the image meets padding only"
    assert np.all(np.isfinite(grad_input[:, 0])), "the tap left of the image meets padding only"


def test_infinite_grad_output_at_the_edge_leaves_finite_the_taps_on_padding() -> None:
    sample = convolution("inf", (1, 1, 4, 4), (1, 1, 3, 3), padding=(1, 1))
    buffers = sample.buffers()
    sample.inputs["input"].view(buffers["input"])[...] = 1
    sample.inputs["grad_output"].view(buffers["grad_output"])[0, 0, 0, 0] = np.inf

    execute(sample, buffers)

    grad_weight: Array = sample.outputs["grad_weight"].view(buffers["grad_weight"])[0, 0]
    assert np.all(np.isposinf(grad_weight[1:, 1:]))
    assert np.all(np.isfinite(grad_weight[0]))
    assert np.all(np.isfinite(grad_weight[:, 0]))


def test_negative_zero_is_an_operand_and_no_padding() -> None:
    sample = convolution("-0", (1, 1, 4, 4), (1, 1, 3, 3), padding=(1, 1))
    buffers = sample.buffers()
    sample.inputs["input"].view(buffers["input"])[...] = -0.0
    sample.inputs["grad_output"].view(buffers["grad_output"])[0, 0, 0, 0] = np.inf

    execute(sample, buffers)

    grad_weight: Array = sample.outputs["grad_weight"].view(buffers["grad_weight"])[0, 0]
    assert np.all(np.isnan(grad_weight[1:, 1:]))
    assert np.all(np.isfinite(grad_weight[0]))


def test_grad_weight_of_groups_in_bf16_passes_through_float16() -> None:
    sample = convolution(
        "quirk",
        (1, 2, 1, 1),
        (2, 1, 1, 1),
        groups=2,
        dtypes=(DataType.BF16,) * 3,
        outs=(DataType.FLOAT,) * 3,
    )
    buffers = sample.buffers()
    sample.inputs["input"].view(buffers["input"]).reshape(-1)[:] = (512, 1.0078125)
    sample.inputs["grad_output"].view(buffers["grad_output"]).reshape(-1)[:] = (512, 1.0078125)

    execute(sample, buffers)

    grad_weight = sample.outputs["grad_weight"].view(buffers["grad_weight"]).reshape(-1)
    assert grad_weight[0] == np.inf, "512 * 512 is beyond FLOAT16"
    assert grad_weight[1] == np.float32(np.float16(1.0078125**2)), "rounded to FLOAT16"


def test_grad_input_is_rounded_to_the_computed_dtype_before_its_own() -> None:
    sample = convolution(
        "two roundings",
        (1, 1, 1),
        (2, 1, 1),
        dtypes=(DataType.BF16,) * 3,
        outs=(DataType.FLOAT,) * 3,
    )
    buffers = sample.buffers()
    sample.inputs["weight"].view(buffers["weight"]).reshape(-1)[:] = (1, 1)
    sample.inputs["grad_output"].view(buffers["grad_output"]).reshape(-1)[:] = (256, 1)

    execute(sample, buffers)

    grad_input = sample.outputs["grad_input"].view(buffers["grad_input"])
    grad_bias = sample.outputs["grad_bias"].view(buffers["grad_bias"])
    assert grad_input.item() == float(ml_dtypes.bfloat16(257)) == 256
    np.testing.assert_array_equal(grad_bias, [256, 1])


@pytest.mark.parametrize("cube_math_type", [1, 3])
def test_hf32_rounds_the_operands_and_not_the_bias(cube_math_type: int) -> None:
    sample = convolution("hf32", (1, 1, 1), (1, 1, 1), cube_math_type=cube_math_type)
    value = 1 + 2.0**-12 + 2.0**-20
    buffers = sample.buffers()
    for name in sample.inputs:
        sample.inputs[name].view(buffers[name])[...] = value

    execute(sample, buffers)

    rounded = float(round_to_hf32(np.array(value)))
    assert rounded == 1 + 2.0**-11
    assert sample.outputs["grad_input"].view(buffers["grad_input"]).item() == rounded**2
    assert sample.outputs["grad_weight"].view(buffers["grad_weight"]).item() == rounded**2
    assert sample.outputs["grad_bias"].view(buffers["grad_bias"]).item() == np.float32(value)


@pytest.mark.parametrize("value", [0.1, 1 / 3])
def test_long_sums_of_one_value_stay_within_the_bound(value: float) -> None:
    sample = convolution("long", (64, 1, 48, 48), (1, 1, 1, 1))
    buffers = sample.buffers()
    for name in sample.inputs:
        sample.inputs[name].view(buffers[name])[...] = value

    execute(sample, buffers)

    given = float(np.float32(value))
    terms = 64 * 48 * 48
    for name, exact in (("grad_weight", terms * given * given), ("grad_bias", terms * given)):
        result = sample.outputs[name].view(buffers[name]).item()
        assert abs(result - exact) <= (4 * np.sqrt(terms) + 3) * 2.0**-24 * exact


def test_oracle_agrees_with_numpy_on_a_plain_convolution() -> None:
    generator = np.random.default_rng(20260822)
    signal, kernel = generator.standard_normal(16), generator.standard_normal(5)
    grad_output = generator.standard_normal(12)
    sample = convolution("plain", (1, 1, 16), (1, 1, 5))

    found = gradients(
        grad_output[None, None],
        signal[None, None],
        kernel[None, None],
        geometry_of(sample.scalars),
    )

    np.testing.assert_allclose(found.grad_input[0, 0], np.convolve(grad_output, kernel))
    np.testing.assert_allclose(found.grad_weight[0, 0], np.correlate(signal, grad_output, "valid"))
