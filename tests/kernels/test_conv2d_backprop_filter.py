"""conv2d_backprop_filter against the float64 oracle and the values that its rules imply."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import execute, is_transformed, plan_of, results
from kernels.oracles import convolution_backward as plain
from kernels.oracles.conv2d_backprop_filter import expected, sums
from kernels.oracles.expectation import assert_meets, assert_meets_exactly
from kernels.samples.conv2d_backprop_filter import SAMPLES, Sizes, gradient
from kernels.samples.sample import NUMPY_DTYPES, Array, Bytes, Sample, Values
from opserve_kernels.formats import from_5hd, from_fractal_z, to_5hd, to_fractal_z
from opserve_kernels.operator import PlanOptions
from opserve_kernels.operators.conv2d_backprop_filter.schema import Conv2dBackpropFilterParaDict

_BY_NAME = {sample.name: sample for sample in SAMPLES}
_EXACT = [sample for sample in SAMPLES if sample.profile == "reference"]
_RAW = [sample for sample in SAMPLES if sample.scalars["raw"]]
_WITH_SHARED_SUPERBLOCKS = ["groups in one superblock", "depthwise", "depthwise of 33"]


def _of_integers(sample: Sample) -> Sample:
    """The same call with small integers: every product and sum is exact in float32."""
    tensors = {
        name: replace(tensor, values=Values.INTEGERS) for name, tensor in sample.inputs.items()
    }
    return sample.but(sample.name, **tensors)


def _put(sample: Sample, buffers: Mapping[str, Bytes], **arrays: Array) -> None:
    for name, array in arrays.items():
        sample.inputs[name].view(buffers[name])[...] = array


def _para_dict(sample: Sample) -> Conv2dBackpropFilterParaDict:
    return sample.scalars["para_dict"] or Conv2dBackpropFilterParaDict()


def _channels_of(sample: Sample) -> tuple[Array, Array]:
    """Integers for input_x and out_backprop, in NCHW."""
    sizes: Sizes = sample.scalars["filter_sizes"]
    groups = _para_dict(sample).groups or 1
    generator = np.random.default_rng(sample.seed)
    drawn: list[Array] = []
    for name, channels in (("input_x", groups * sizes[1]), ("out_backprop", sizes[0])):
        batch, _, *positions, _ = sample.inputs[name].shape
        integers = generator.integers(-3, 4, (batch, channels, *positions))
        drawn.append(integers.astype(np.float16))
    return drawn[0], drawn[1]


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


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_gradient_is_that_of_the_plain_convolution_in_fractal_z(sample: Sample) -> None:
    para_dict = _para_dict(sample)
    sizes: Sizes = sample.scalars["filter_sizes"]
    groups = para_dict.groups or 1
    x, dy = _channels_of(sample)
    buffers = sample.buffers()
    _put(sample, buffers, input_x=to_5hd(x), out_backprop=to_5hd(dy))
    if 0 in sample.inputs["input_x"].tensor().element_strides:  # entries share their values
        x = from_5hd(sample.inputs["input_x"].view(buffers["input_x"]), x.shape[1])
    geometry = plain.Geometry(
        stride=para_dict.strides or (1, 1),
        padding=(para_dict.padding or (0,) * 4)[::2],
        dilation=(para_dict.dilations or (1,) * 4)[2:],
        transposed=False,
        groups=groups,
    )

    execute(sample, buffers, options=PlanOptions())

    found = _result(sample, buffers)
    wanted = plain.gradients(
        dy.astype(np.float64), x.astype(np.float64), np.zeros(sizes), geometry
    ).grad_weight.astype(found.dtype)
    np.testing.assert_array_equal(from_fractal_z(found, sizes, groups), wanted)
    if not sample.scalars["raw"]:
        canonical = to_fractal_z(wanted, groups, 16)
        np.testing.assert_array_equal(found, canonical, "zeros off the diagonal")


@pytest.mark.parametrize("sample", _RAW, ids=lambda sample: sample.name)
def test_raw_differs_off_the_diagonal_only(sample: Sample) -> None:
    sizes, groups = sample.scalars["filter_sizes"], _para_dict(sample).groups or 1

    raw = results(sample)["res_tensor"]
    canonical = results(sample.but(sample.name, raw=False))["res_tensor"]

    np.testing.assert_array_equal(
        from_fractal_z(raw, sizes, groups), from_fractal_z(canonical, sizes, groups)
    )
    assert np.any(raw[canonical == 0] != 0)


@pytest.mark.parametrize(
    ("channels", "groups", "is_diagonal"),
    [(32, 1, True), (64, 2, True), (31, 1, False), (16, 2, False)],
)
def test_whole_blocks_of_each_group_are_raw_anyway(
    channels: int, groups: int, is_diagonal: bool
) -> None:
    sizes = (16 * groups, channels // groups, 3, 3)
    sample = gradient("whole blocks", (1, channels, 5, 5), sizes, groups=groups)
    raw = sample.but(sample.name, raw=True)
    assert (plan_of(sample) == plan_of(raw)) == is_diagonal


@pytest.mark.parametrize("name", _WITH_SHARED_SUPERBLOCKS)
def test_products_between_different_groups_are_zeros_unless_raw(name: str) -> None:
    sample = _BY_NAME[name]
    sizes: Sizes = sample.scalars["filter_sizes"]
    groups = _para_dict(sample).groups or 1
    diagonal = to_fractal_z(np.ones(sizes, dtype=np.float32), groups)

    found = results(sample)["res_tensor"]

    assert np.all(found[diagonal == 0] == 0)
    assert np.all(found[diagonal == 1] != 0)


def test_vendors_example_sums_over_its_49_positions() -> None:
    sample = _BY_NAME["vendor's"]
    x = np.arange(16 * 49).reshape(1, 16, 7, 7) % 5 - 2.0
    dy = np.arange(16 * 49).reshape(1, 16, 7, 7) % 7 - 3.0
    buffers = sample.buffers()
    _put(sample, buffers, input_x=to_5hd(x), out_backprop=to_5hd(dy))

    execute(sample, buffers)

    found = _result(sample, buffers)
    assert found.dtype == np.float32
    assert found.shape == (1, 1, 16, 16)
    np.testing.assert_array_equal(found[0, 0], np.tensordot(dy[0], x[0], axes=((1, 2), (1, 2))))


def test_vendors_example_of_ones_is_its_49_positions() -> None:
    sample = _BY_NAME["vendor's"]
    buffers = sample.buffers()
    _put(sample, buffers, input_x=np.ones(()), out_backprop=np.ones(()))

    execute(sample, buffers)

    assert np.all(_result(sample, buffers) == 49)


def test_lanes_beyond_the_channels_are_zeros_unless_raw() -> None:
    for raw in (False, True):
        sample = gradient("lanes", (1, 3, 1, 1), (2, 3, 1, 1), raw=raw)
        buffers = sample.buffers()
        _put(sample, buffers, input_x=np.ones(()), out_backprop=np.ones(()))

        execute(sample, buffers)

        wanted = np.zeros((1, 1, 16, 16))
        wanted[:, :, : 16 if raw else 2, : 16 if raw else 3] = 1
        np.testing.assert_array_equal(_result(sample, buffers), wanted)
