"""aclnnConvolution against naive sums, the vendor's values and the values that its rules imply."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import execute, is_transformed, plan_of, results
from kernels.oracles.convolution import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples.convolution import SAMPLES
from kernels.samples.layers import BF16, FLOAT, FLOAT16, layer
from kernels.samples.sample import FILLER, NUMPY_DTYPES, Array, Sample, Values
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
every_sample = pytest.mark.parametrize(
    "sample", [*SAMPLES, *_ON_REFERENCE], ids=lambda sample: f"{sample.name} on {sample.profile}"
)


def _of_integers(sample: Sample) -> Sample:
    """The same call with small integers: every product and sum is exact in float32."""
    tensors = {
        name: replace(tensor, values=Values.INTEGERS) for name, tensor in sample.inputs.items()
    }
    return sample.but(sample.name, **tensors)


@every_sample
def test_outputs_are_within_the_bound_of_their_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers, transformed=is_transformed(sample))

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


@pytest.mark.parametrize(
    "sample", [_of_integers(sample) for sample in SAMPLES], ids=lambda sample: sample.name
)
def test_outputs_of_small_integers_are_exact(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        tensor = sample.outputs[name]
        exact = expectation.value.astype(NUMPY_DTYPES[tensor.dtype])
        np.testing.assert_array_equal(tensor.view(buffers[name]), exact, name)


_LINE = np.array([1, 2, 1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vendor's 2-D", np.full((2, 2), 2)),
        ("vendor's 1-D transposed", 16 * _LINE),
        ("vendor's 2-D transposed", 16 * np.multiply.outer(_LINE, _LINE)),
        (
            "vendor's 3-D transposed",
            16 * np.multiply.outer(_LINE, np.multiply.outer(_LINE, _LINE)),
        ),
        ("padding up, down, left, right", [[2, 2, 1, 0], [4, 4, 2, 0], [4, 4, 2, 0]]),
    ],
)
def test_known_calls_compute_their_derived_values(name: str, value: Array) -> None:
    for profile in ("ascend910b", "reference"):
        output = results(replace(_BY_NAME[name], profile=profile))["output"]

        assert np.all(output == value)


@pytest.mark.parametrize(
    ("shapes", "profile", "value"),
    [
        (((1, 1, 1, 1), (1, 1, 1, 1)), "ascend910b", 0),
        (((1, 1, 1, 1, 2), (1, 1, 1, 1, 1)), "ascend910b", 2.0**-12),
        (((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)), "ascend910b", 0),
        (((1, 1, 1, 1), (1, 1, 1, 1)), "ascend910", 0),
        (((1, 1, 1, 1), (1, 1, 1, 1)), "ascend310p", 0),
        (((1, 1, 1, 1), (1, 1, 1, 1)), "reference", 2.0**-12),
    ],
)
def test_a_float_bias_is_rounded_with_half_operands_but_in_pointwise_3d_calls(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], profile: str, value: float
) -> None:
    sample = layer("bias", *shapes, dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16), profile=profile)
    buffers = sample.buffers()
    _put(sample, buffers, input=-1, weight=1, bias=1 + 2.0**-12)

    execute(sample, buffers)

    assert np.all(sample.outputs["output"].view(buffers["output"]) == value)


@pytest.mark.parametrize(
    ("cube_math_type", "profile", "value"),
    [
        (0, "ascend910b", 1 + 2.0**-13),
        (1, "ascend910b", 1),
        (3, "ascend910b", 1),
        (4, "ascend910b", 1 + 2.0**-13),
        (0, "ascend310b", 1 + 2.0**-13),
        (1, "reference", 1),
    ],
)
def test_hf32_rounds_operands_of_float_calls(
    cube_math_type: int, profile: str, value: float
) -> None:
    sample = layer(
        "hf32", (1, 1, 1, 1), (1, 1, 1, 1), cube_math_type=cube_math_type, profile=profile
    )
    assert _computed(sample, input=1 + 2.0**-13, weight=1, bias=0) == np.float32(value)


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_an_input_that_rounds_to_minus_0_times_no_number_is_no_number(weight: float) -> None:
    sample = layer("underflow", (2, 4, 9, 8), (6, 4, 3, 2), cube_math_type=2)
    buffers = sample.buffers()
    _put(sample, buffers, input=1, weight=1, bias=0)
    sample.inputs["input"].view(buffers["input"])[0, 1, 2, 3] = -1e-30
    sample.inputs["weight"].view(buffers["weight"])[0, 1, 0, 0] = weight

    execute(sample, buffers)

    assert np.isnan(sample.outputs["output"].view(buffers["output"])[0, 0, 2, 3])


def test_310b_keeps_ten_bits_of_hf32() -> None:
    for profile, value in (("ascend910b", 1 + 2.0**-11), ("ascend310b", 1 + 2.0**-10)):
        sample = layer("hf32", (1, 1, 1, 1), (1, 1, 1, 1), cube_math_type=3, profile=profile)
        assert _computed(sample, input=1 + 2.0**-11, weight=1, bias=0) == np.float32(value)


def test_a_float_bias_of_bf16_operands_does_not_pass_bf16() -> None:
    sample = layer("bf16", (1, 1, 1), (1, 1, 1), dtypes=(BF16, BF16, FLOAT, FLOAT))
    assert _computed(sample, input=-1, weight=1, bias=1 + 2.0**-10) == 2.0**-10


def test_a_sum_is_rounded_to_the_dtype_of_the_computation_before_a_wider_output() -> None:
    sample = layer("wide", (1, 1, 1), (1, 1, 1), dtypes=(FLOAT16, FLOAT16, FLOAT16, FLOAT))
    assert _computed(sample, input=1, weight=2.0**-12, bias=1) == 1


@pytest.mark.parametrize(
    ("axes", "transposed", "value"),
    [
        (1, False, 1.5 + 2.0**-10),
        (3, False, 1.5 + 2.0**-10),
        (2, True, 1.5 + 2.0**-10),
        (3, True, 1.5 + 2.0**-9),
    ],
)
def test_a_bias_is_added_before_the_one_rounding_but_in_transposed_3d_calls(
    axes: int, transposed: bool, value: float
) -> None:
    """The product is between two FLOAT16 values; the bias takes it to the lower one exactly.

    Rounded first, it goes up, and the bias then leads halfway back, from where it is rounded up.
    """
    shape, halves = (1,) * (axes + 2), (FLOAT16,) * 4
    for profile in ("ascend910b", "ascend910"):
        sample = layer("twice", shape, shape, dtypes=halves, transposed=transposed, profile=profile)
        assert _computed(sample, input=1 + 2.0**-10, weight=1.5, bias=-(2.0**-11)) == value


def test_a_transposed_half_call_by_type_2_has_a_float_output_of_half_values() -> None:
    dtypes = (FLOAT16, FLOAT16, FLOAT, FLOAT)
    sample = layer("", (1, 1, 1), (1, 1, 1), dtypes=dtypes, cube_math_type=2, transposed=True)
    assert _computed(sample, input=1, weight=1, bias=2.0**-11) == 1


def test_a_bf16_computation_is_rounded_to_bf16_before_a_half_output_that_saturates() -> None:
    for profile, beyond in (("ascend910b", np.inf), ("ascend310b", 65504)):
        dtypes = (BF16, BF16, FLOAT, FLOAT16)
        sample = layer("", (1, 1, 1, 1), (1, 1, 1, 1), dtypes=dtypes, profile=profile)
        assert _computed(sample, input=256, weight=1, bias=1) == 256
        assert _computed(sample, input=2.0**10, weight=2.0**10, bias=1) == beyond


@pytest.mark.parametrize("profile", ["ascend910", "ascend310p"])
def test_a_transposed_3d_call_without_a_float_cube_adds_its_bias_in_half(profile: str) -> None:
    shape = (1,) * 5
    sample = layer("", shape, shape, cube_math_type=1, transposed=True, profile=profile)
    assert _computed(sample, input=1, weight=1, bias=2.0**-11) == 1


@pytest.mark.parametrize(("dtype", "bias"), [(FLOAT, 70001), (BF16, 70144)])
def test_a_pointwise_3d_call_adds_any_bias_in_float(dtype: DataType, bias: float) -> None:
    dtypes = (FLOAT16, FLOAT16, dtype, FLOAT16)
    sample = layer("", (1, 1, 1, 1, 2), (1,) * 5, dtypes=dtypes)
    buffers = sample.buffers()
    _put(sample, buffers, input=-60000, weight=1, bias=bias)

    execute(sample, buffers)

    output = sample.outputs["output"].view(buffers["output"])
    assert np.all(output == np.float16(bias - 60000))


def test_a_3d_call_that_is_a_matrix_product_has_no_limits_of_the_tiling() -> None:
    halves, ones = (FLOAT16,) * 4, (1,) * 5
    sizes, stride = (3, 2, 112, 112), (2, 112, 112)
    calls = (
        layer("", (64, *sizes), (768, *sizes), stride=stride, dtypes=halves),
        layer("", ones, ones, stride=(1, 64, 64), dtypes=halves),
    )
    for call in calls:
        assert plan_of(call).units > 0
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(calls[1].but("", dilation=(2, 1, 1)))
    assert refusal.value.status.value == 361001


def test_an_empty_call_needs_nothing_and_leaves_output_as_it_was() -> None:
    for name in ("no entries", "no channels in or out", "no output"):
        sample = _BY_NAME[name]
        buffers = sample.buffers()
        plan = plan_of(sample)

        execute(sample, buffers)

        assert (plan.workspace_size, plan.units) == (0, 0)
        assert np.all(buffers["output"] == FILLER)


def test_output_padding_of_a_plain_call_is_not_read() -> None:
    for value in (None, (), (-1, 7, 3)):
        sample = _BY_NAME["2-D"].but("", output_padding=value)
        assert plan_of(sample) == plan_of(_BY_NAME["2-D"])


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_shares_of_a_call_with_a_bias_compute_its_bytes(
    threads: int, groups: int, transposed: bool
) -> None:
    weight = (32, 32 // groups, 3, 3)
    sample = layer("shared", (6, 32, 40, 41), weight, groups=groups, transposed=transposed)
    alone, shared = sample.buffers(), sample.buffers()
    options = PlanOptions(threads=threads)
    assert len(plan_of(sample, options).shares) > 1

    execute(sample, alone, options=PlanOptions())
    execute(sample, shared, options=options)

    np.testing.assert_array_equal(shared["output"], alone["output"])


def _computed(sample: Sample, **values: float) -> float:
    """The only element of the output."""
    buffers = sample.buffers()
    _put(sample, buffers, **values)
    execute(sample, buffers)
    return float(sample.outputs["output"].view(buffers["output"]).item())


def _put(sample: Sample, buffers: dict[str, Any], **values: float) -> None:
    for name, value in values.items():
        sample.inputs[name].view(buffers[name])[...] = value
