"""conv2d_backprop_input against the float64 oracle and the values that its rules imply."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import execute, is_transformed, results
from kernels.oracles import convolution_backward as plain
from kernels.oracles.conv2d_backprop_input import expected, sums
from kernels.oracles.expectation import assert_meets, assert_meets_exactly
from kernels.oracles.rounding import saturate
from kernels.samples.conv2d_backprop_input import SAMPLES, Sizes, gradient
from kernels.samples.sample import NUMPY_DTYPES, Array, Bytes, Sample, Values
from opserve_kernels.formats import from_5hd, to_5hd, to_fractal_z
from opserve_kernels.operator import PlanOptions
from opserve_kernels.operators.conv2d_backprop_input.schema import Conv2dBackpropInputParaDict
from opserve_kernels.tensor import DataType

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_FINITE = [sample for sample in SAMPLES if sample.inputs["filters"].values != Values.SPECIAL]
_EXACT = [sample for sample in SAMPLES if sample.profile == "reference"]
_HALF_MOST = 65504.0


def _of_integers(sample: Sample) -> Sample:
    """The same call with small integers: every product and sum is exact in float32."""
    tensors = {
        name: replace(tensor, values=Values.INTEGERS) for name, tensor in sample.inputs.items()
    }
    return sample.but(sample.name, **tensors)


def _put(sample: Sample, buffers: Mapping[str, Bytes], **arrays: Array) -> None:
    for name, array in arrays.items():
        sample.inputs[name].view(buffers[name])[...] = array


def _channels_of(sample: Sample) -> tuple[Array, Array]:
    """Integers for out_backprop and filters, in NCHW."""
    batch, _, *positions, _ = sample.inputs["out_backprop"].shape
    sizes: Sizes = sample.scalars["filter_sizes"]
    generator = np.random.default_rng(sample.seed)
    dy = generator.integers(-3, 4, (batch, sizes[0], *positions)).astype(np.float16)
    return dy, generator.integers(-3, 4, sizes).astype(np.float16)


def _result(sample: Sample, buffers: Mapping[str, Bytes]) -> Any:
    return sample.outputs["res_tensor"].view(buffers["res_tensor"])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_gradient_is_within_the_bound_of_its_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    transformed = is_transformed(sample)
    expectation = expected(sample, buffers, transformed=transformed)["res_tensor"]

    execute(sample, buffers)

    assert_meets(_result(sample, buffers), expectation)


@pytest.mark.parametrize("sample", _EXACT, ids=lambda sample: sample.name)
def test_reference_rounds_a_float64_sum_once(sample: Sample) -> None:
    buffers = sample.buffers()
    value, magnitude, terms = sums(sample, buffers)
    dtype = sample.outputs["res_tensor"].dtype
    if dtype == DataType.FLOAT16:
        value, magnitude = saturate(value), magnitude * (np.abs(value) < _HALF_MOST)

    execute(sample, buffers)

    assert_meets_exactly(_result(sample, buffers), value, magnitude, terms=terms, dtype=dtype)


@pytest.mark.parametrize(
    "sample", [_of_integers(sample) for sample in SAMPLES], ids=lambda sample: sample.name
)
def test_gradient_of_small_integers_is_exact(sample: Sample) -> None:
    buffers = sample.buffers()
    value, _, _ = sums(sample, buffers)

    execute(sample, buffers, options=PlanOptions())

    exact = value.astype(NUMPY_DTYPES[sample.outputs["res_tensor"].dtype])
    np.testing.assert_array_equal(_result(sample, buffers), exact)


@pytest.mark.parametrize("sample", _FINITE, ids=lambda sample: sample.name)
def test_gradient_is_that_of_the_plain_convolution_where_formats_are_padded_with_zeros(
    sample: Sample,
) -> None:
    para_dict: Conv2dBackpropInputParaDict = sample.scalars["para_dict"]
    sizes: Sizes = sample.scalars["input_sizes"]
    groups = (para_dict.group_dict and para_dict.group_dict.groups) or 1
    assert para_dict.strides
    assert para_dict.padding
    assert para_dict.dilations
    dy, weight = _channels_of(sample)
    buffers = sample.buffers()
    _put(sample, buffers, out_backprop=to_5hd(dy), filters=to_fractal_z(weight, groups))
    if 0 in sample.inputs["out_backprop"].tensor().element_strides:  # entries share their values
        dy = from_5hd(sample.inputs["out_backprop"].view(buffers["out_backprop"]), dy.shape[1])
    geometry = plain.Geometry(
        stride=para_dict.strides,
        padding=para_dict.padding[::2],
        dilation=para_dict.dilations[2:],
        transposed=False,
        groups=groups,
    )

    execute(sample, buffers, options=PlanOptions())

    found = _result(sample, buffers)
    wanted = plain.gradients(
        dy.astype(np.float64), np.zeros(sizes), weight.astype(np.float64), geometry
    ).grad_input
    np.testing.assert_array_equal(from_5hd(found, sizes[1]), wanted.astype(found.dtype))
    np.testing.assert_array_equal(to_5hd(from_5hd(found, sizes[1]), 16), found, "lanes beyond Cin")


def test_vendors_example_multiplies_each_position_by_the_filter() -> None:
    sample = _BY_NAME["vendor's"]
    dy = np.arange(16 * 49).reshape(1, 16, 7, 7) % 5 - 2.0
    weight = np.arange(256).reshape(16, 16, 1, 1) % 7 - 3.0
    buffers = sample.buffers()
    _put(sample, buffers, out_backprop=to_5hd(dy), filters=to_fractal_z(weight))

    execute(sample, buffers)

    found = _result(sample, buffers)
    assert found.dtype == np.float32
    assert found.shape == (1, 1, 7, 7, 16)
    wanted = np.tensordot(dy[0], weight[:, :, 0, 0], axes=(0, 0))  # H, W, Cin
    np.testing.assert_array_equal(found[0, 0], wanted)


def test_vendors_example_of_ones_is_its_16_output_channels() -> None:
    sample = _BY_NAME["vendor's"]
    buffers = sample.buffers()
    _put(sample, buffers, out_backprop=np.ones(()), filters=np.ones(()))

    execute(sample, buffers)

    assert np.all(_result(sample, buffers) == 16)


@pytest.mark.parametrize("name", ["stride leaves a rest", "kernel of 1 with a stride"])
def test_positions_that_the_forward_convolution_never_read_are_zero(name: str) -> None:
    sample = _BY_NAME[name]
    reached = np.zeros(sample.scalars["input_sizes"][2:], dtype=np.bool_)
    strides = sample.scalars["para_dict"].strides
    kernel = sample.scalars["filter_sizes"][2:]
    for i, j in np.ndindex(*sample.inputs["out_backprop"].shape[2:4]):
        high, wide = i * strides[0], j * strides[1]
        reached[high : high + kernel[0], wide : wide + kernel[1]] = True

    found = results(sample)["res_tensor"]

    assert not reached.all()
    assert np.all(found[:, :, ~reached] == 0)
    assert np.all(np.any(found[:, :, reached] != 0, axis=(0, 1, 3)))


@pytest.mark.parametrize(
    "profile",
    ["ascend910b", "ascend910", "ascend310p", "ascend310b", "ascend310", "reference"],
)
@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (65504, 16, 65504),  # 65520, the least that rounds beyond FLOAT16
        (65504, 65504, 65504),
        (-65504, -16, -65504),
        (65504, -32, 65472),
        (np.inf, 0, 65504),
        (np.nan, 0, np.nan),
    ],
)
def test_float16_stops_at_its_greatest_value_on_every_profile(
    profile: str, first: float, second: float, wanted: float
) -> None:
    sample = gradient("beyond", (1, 1, 1, 1), (2, 1, 1, 1), profile=profile)
    buffers = sample.buffers()
    filters = np.zeros((1, 1, 16, 16))
    filters[0, 0, :2, 0] = first, second
    _put(sample, buffers, filters=filters, out_backprop=np.ones(()))

    execute(sample, buffers)

    np.testing.assert_array_equal(_result(sample, buffers).reshape(-1)[0], wanted)


def test_values_between_different_groups_are_used_as_given() -> None:
    sample = gradient("off the diagonal", (1, 2, 1, 1), (2, 1, 1, 1), groups=2, res_dtype="float32")
    buffers = sample.buffers()
    filters = np.zeros((1, 1, 16, 16))
    filters[0, 0, 0, 1] = 5.0  # from output channel 0 of group 0 to input channel 1 of group 1
    _put(sample, buffers, filters=filters, out_backprop=np.ones(()))

    execute(sample, buffers)

    assert _result(sample, buffers).reshape(-1)[:3].tolist() == [0, 5, 0]


def test_lanes_beyond_the_channels_hold_what_the_filter_has_there() -> None:
    sample = gradient("lanes", (1, 3, 1, 1), (2, 3, 1, 1), res_dtype="float32")
    buffers = sample.buffers()
    _put(sample, buffers, filters=np.ones(()), out_backprop=np.ones(()))

    execute(sample, buffers)

    assert np.all(_result(sample, buffers) == 16), "all 16 lanes of out_backprop count"


def test_bf16_is_rounded_once() -> None:
    sample = gradient("once", (1, 1, 1, 1), (2, 1, 1, 1), res_dtype="bfloat16")
    buffers = sample.buffers()
    filters = np.zeros((1, 1, 16, 16))
    filters[0, 0, :2, 0] = (256, 1 + 2.0**-9)  # 257.00195: FLOAT16 would make a tie of it
    _put(sample, buffers, filters=filters, out_backprop=np.ones(()))

    execute(sample, buffers)

    assert _result(sample, buffers).reshape(-1)[0] == 258
