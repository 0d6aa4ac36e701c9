"""aclnnConvolutionBackward against the float64 oracle and the values that its rules imply."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels.execution import execute, results
from kernels.oracles.convolution_backward import expected, geometry_of, gradients
from kernels.oracles.expectation import assert_meets
from kernels.oracles.rounding import round_to_hf32
from kernels.samples.convolution_backward import SAMPLES, convolution
from kernels.samples.sample import NUMPY_DTYPES, Array, Sample, Values
from opserve_kernels.operator import DocumentedRules, PlanOptions
from opserve_kernels.operators.convolution_backward.operator import OPERATOR
from opserve_kernels.tensor import DataType

WARN = PlanOptions(documented_rules=DocumentedRules.WARN)
"""Gradients of another dtype than the page has are computed as the source does."""

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
    ("name", "profiles", "grad_input", "grad_weight", "grad_bias"),
    [
        ("vendor's 2-D", ("ascend910b", "ascend910", "ascend310p", "reference"), 2, 98, 98),
        ("vendor's 1-D", ("ascend910b", "reference"), 2, 12, 12),
        ("vendor's 3-D", ("ascend910b", "reference"), 2, 686, 686),
    ],
)
def test_vendors_sample_programs_compute_their_derived_values(
    name: str, profiles: tuple[str, ...], grad_input: float, grad_weight: float, grad_bias: float
) -> None:
    for profile in profiles:
        outputs = results(replace(_BY_NAME[name], profile=profile))

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

    execute(sample, buffers, options=WARN)

    grad_weight = sample.outputs["grad_weight"].view(buffers["grad_weight"]).reshape(-1)
    assert grad_weight[0] == np.inf, "512 * 512 is beyond FLOAT16"
    assert grad_weight[1] == np.float32(np.float16(1.0078125**2)), "rounded to FLOAT16"


def test_grad_input_is_rounded_to_the_computed_dtype_before_the_output_dtype() -> None:
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

    execute(sample, buffers, options=WARN)

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


def _one_product(name: str, grad_output: float, weight: float, **changes: Any) -> dict[str, float]:
    """The gradients of a convolution of single elements, whose input is 1."""
    sample = convolution(name, (1, 1, 1), (1, 1, 1), **changes)
    buffers = sample.buffers()
    for tensor, value in (("grad_output", grad_output), ("weight", weight), ("input", 1.0)):
        sample.inputs[tensor].view(buffers[tensor])[...] = value
    execute(sample, buffers)
    return {name: float(t.view(buffers[name]).item()) for name, t in sample.outputs.items()}


@pytest.mark.parametrize("profile", ["ascend910", "ascend310p"])
@pytest.mark.parametrize("cube_math_type", [1, 2])
def test_float_is_computed_as_float16_on_older_profiles(profile: str, cube_math_type: int) -> None:
    fine = 1 + 2.0**-11 + 2.0**-20

    found = _one_product("cast", fine, 3.0, cube_math_type=cube_math_type, profile=profile)

    assert found["grad_input"] == 3 + 2.0**-8, "of 3 + 3 * 2**-10, a tie in FLOAT16"
    assert found["grad_weight"] == 1 + 2.0**-10
    assert found["grad_bias"] == fine, "a sum of grad_output as it was given"


@pytest.mark.parametrize("value", [1e6, -1e6, np.inf])
def test_operand_beyond_float16_saturates_when_it_is_cast_on_older_profiles(value: float) -> None:
    found = _one_product("cast", value, 0.5, cube_math_type=1, profile="ascend910")

    assert found["grad_input"] == np.copysign(32752, value)
    assert found["grad_weight"] == np.copysign(65504, value)
    assert found["grad_bias"] == np.float32(value)


def test_infinite_float16_operand_is_not_cast_and_its_results_saturate_on_older_profiles() -> None:
    found = _one_product("inf", np.inf, 1e-3, dtypes=(DataType.FLOAT16,) * 3, profile="ascend310p")

    assert set(found.values()) == {65504}


def test_infinite_float16_operand_stays_infinite_beside_a_cast_one_on_older_profiles() -> None:
    dtypes = (DataType.FLOAT16, DataType.FLOAT, DataType.FLOAT)

    found = _one_product("inf", np.inf, 0.25, dtypes=dtypes, cube_math_type=1, profile="ascend910")

    assert found["grad_input"] == 65504, "a quarter of infinity, not of 65504"


def test_operand_beyond_float16_becomes_infinite_when_it_is_cast_on_910b() -> None:
    found = _one_product("cast", 1e6, 0.5, dtypes=(DataType.BF16,) * 3, cube_math_type=2)

    assert found["grad_input"] == np.inf
    assert found["grad_weight"] == np.inf
    assert found["grad_bias"] == float(ml_dtypes.bfloat16(1e6))


def test_reference_rounds_a_double_to_float16_once() -> None:
    dtypes = (DataType.DOUBLE,) * 3
    above_a_tie = 1 + 2.0**-11 + 2.0**-40

    found = _one_product(
        "cast", above_a_tie, 1.0, dtypes=dtypes, cube_math_type=2, profile="reference"
    )

    assert found["grad_input"] == 1 + 2.0**-10, "float32 on the way would lie on the tie"
    assert found["grad_bias"] == above_a_tie


@pytest.mark.parametrize("cube_math_type", [0, 1, 3])
def test_reference_keeps_every_bit_of_a_double(cube_math_type: int) -> None:
    dtypes = (DataType.DOUBLE,) * 3
    fine = 1 + 2.0**-52

    found = _one_product(
        "fine", fine, 1.0, dtypes=dtypes, cube_math_type=cube_math_type, profile="reference"
    )

    assert set(found.values()) == {fine}


def test_gradients_beside_a_double_are_inferred_as_doubles() -> None:
    dtypes = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)
    arguments = convolution("infer", (1, 1, 4), (1, 1, 2), dtypes=dtypes).arguments()

    inferred = OPERATOR.infer_outputs(
        replace(arguments, grad_input=None, grad_weight=None, grad_bias=None)
    )

    assert {name: tensor.dtype for name, tensor in inferred.items()} == {
        "grad_input": DataType.FLOAT,
        "grad_weight": DataType.DOUBLE,
        "grad_bias": DataType.FLOAT,
    }


def test_reference_rounds_a_result_to_float16_once() -> None:
    dtypes, outs = (DataType.DOUBLE,) * 3, (DataType.FLOAT16,) * 3
    above_a_tie = 1 + 2.0**-11 + 2.0**-40

    found = _one_product("once", above_a_tie, 1.0, dtypes=dtypes, outs=outs, profile="reference")

    assert set(found.values()) == {1 + 2.0**-10}


def test_reference_passes_no_dtype_on_the_way_to_a_result() -> None:
    wide = {"dtypes": (DataType.FLOAT16,) * 3, "outs": (DataType.FLOAT,) * 3}

    found = _one_product("once", 65504.0, 65504.0, profile="reference", **wide)
    grouped = convolution("groups", (1, 2, 1), (2, 1, 1), groups=2, profile="reference", **wide)
    buffers = grouped.buffers()
    for name in grouped.inputs:
        grouped.inputs[name].view(buffers[name])[...] = 60000
    execute(grouped, buffers)

    assert found["grad_input"] == 65504.0**2
    narrow = float(np.float16(60000))
    assert np.all(grouped.outputs["grad_weight"].view(buffers["grad_weight"]) == narrow**2)


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


@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
def test_without_entries_a_weight_gradient_of_one_element_is_0(profile: str) -> None:
    sample = replace(convolution("no entries", (0, 1, 3, 3), (1, 1, 1, 1)), profile=profile)
    found = results(sample)
    assert (found["grad_weight"].item(), found["grad_bias"].item()) == (0.0, 0.0)
