"""deconv_grad_filter against the float64 oracle and the values that its formula implies."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import ANY_PLAN, execute, is_transformed, plan_of, results
from kernels.oracles import convolution_backward as convolution_oracle
from kernels.oracles.deconv_grad_filter import expected, forward, numbers_of, weight_gradient
from kernels.oracles.expectation import assert_meets
from kernels.samples.deconv_grad_filter import BASE, SAMPLES, deconvolution
from kernels.samples.sample import NUMPY_DTYPES, Array, Bytes, Sample, Values
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

DIRECT = PlanOptions()
"""Of plans whose sums of small integers are exact."""
_BY_NAME = {sample.name: sample for sample in SAMPLES}
_TAPS = [16 * (4 - r) * (4 - s) for r in range(4) for s in range(4)]
every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def _written(sample: Sample, buffers: dict[str, Bytes], options: PlanOptions = ANY_PLAN) -> Array:
    execute(sample, buffers, options=options)
    return sample.outputs["dw_data"].view(buffers["dw_data"])


def _given(sample: Sample, **arrays: Any) -> dict[str, Bytes]:
    """Device memory with some inputs of one's own."""
    buffers = sample.buffers()
    for name, array in arrays.items():
        sample.inputs[name].view(buffers[name])[...] = array
    return buffers


def _of_integers(sample: Sample) -> Sample:
    """The same call with small integers: every product and sum is exact."""
    inputs = {
        name: replace(tensor, values=Values.INTEGERS) for name, tensor in sample.inputs.items()
    }
    return sample.but(sample.name, **inputs)


@every_sample
def test_gradient_is_within_the_bound_of_its_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    transformed = is_transformed(sample)
    expectation = expected(sample, buffers, transformed=transformed)["dw_data"]

    assert_meets(_written(sample, buffers), expectation)


@every_sample
def test_gradient_of_small_integers_is_exact(sample: Sample) -> None:
    sample = _of_integers(sample)
    buffers = sample.buffers()
    value = expected(sample, buffers)["dw_data"].value

    dtype = NUMPY_DTYPES[sample.outputs["dw_data"].dtype]
    np.testing.assert_array_equal(_written(sample, buffers, DIRECT), value.astype(dtype))


@pytest.mark.parametrize(
    "name", ["vendor's, ones", "vendor's, private storage", "vendor's, older mask"]
)
def test_vendors_example_with_ones_counts_the_pixels_under_each_tap(name: str) -> None:
    gradient = results(_BY_NAME[name])["dw_data"]

    exact = np.broadcast_to(np.array(_TAPS)[:, None], (16, 4))
    np.testing.assert_array_equal(gradient.reshape(4, 16, 4), np.broadcast_to(exact, (4, 16, 4)))


def test_vendors_example_with_its_pattern_of_values() -> None:
    sample = _BY_NAME["vendor's, ones"]
    drawn = _rand(2 * 16 * 4 * 4 * 4) % 10
    x, dy = (drawn.astype(np.float32) / np.float32(50) + np.float32(0.1)).reshape(2, 16, 4, 4, 4)
    buffers = _given(sample, x_data=x, dy_data=dy)
    expectation = expected(sample, buffers)["dw_data"]
    corner = sum(int(a) * int(b) for a, b in zip(*_digits_of_channel_0(drawn), strict=True))

    gradient = _written(sample, buffers)

    assert_meets(gradient, expectation)
    assert gradient[0, 0, 0] == pytest.approx(corner / 2500, rel=1e-6), "tap (0, 0) meets all of x"


def _rand(count: int) -> NDArray[np.int64]:
    """The example rand() of the C standard, from seed 1."""
    drawn = np.empty(count, dtype=np.int64)
    state = 1
    for i in range(count):
        state = (state * 1103515245 + 12345) % 2**32
        drawn[i] = state // 65536 % 32768
    return drawn


def _digits_of_channel_0(drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of x and dy in channel 0, times 50: digit/50 + 0.1 is (digit + 5)/50."""
    return drawn.reshape(2, -1, 4)[:, :, 0] + 5


@every_sample
def test_oracle_is_the_weight_gradient_of_a_transposed_convolution(sample: Sample) -> None:
    """aclnnConvolutionBackward's oracle with transposed=True, whose kernel is not flipped."""
    inputs = sample.logical(_of_integers(sample).buffers())
    dy, x = (inputs[name].astype(np.float64) for name in ("dy_data", "x_data"))
    numbers = numbers_of(sample.scalars)
    group, taps = numbers["group"], (numbers["kernel_h"], numbers["kernel_w"])
    outs, ins = dy.shape[3] // group, x.shape[3] // group

    gradient = convolution_oracle.gradients(
        np.moveaxis(dy, 3, 1),
        np.moveaxis(x, 3, 1),
        np.zeros((x.shape[3], outs, *taps)),
        convolution_oracle.Geometry(
            stride=(numbers["stride_h"], numbers["stride_w"]),
            padding=(numbers["pad_u"], numbers["pad_l"]),
            dilation=(numbers["dilation_h"], numbers["dilation_w"]),
            transposed=True,
            groups=group,
        ),
    ).grad_weight

    order = (0, 3, 4, 2, 1) if numbers["row_order"] == "kh_kw_oc" else (0, 2, 3, 4, 1)
    rows = gradient.reshape(group, ins, outs, *taps).transpose(order).reshape(group, -1, ins)
    np.testing.assert_array_equal(rows, weight_gradient(dy, x, sample.scalars))


@st.composite
def deconvolutions(draw: st.DrawFn) -> Sample:
    """Small calls of any geometry and any output size, of small integers: all sums are exact."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    group, batch = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    (ins, outs), kernel = pair(1, 3), pair(1, 3)
    scalars = {
        **dict(zip(("stride_h", "stride_w"), pair(1, 3), strict=True)),
        **dict(zip(("pad_u", "pad_l"), pair(0, 4), strict=True)),
        **dict(zip(("dilation_h", "dilation_w"), pair(1, 3), strict=True)),
    }
    return deconvolution(
        "drawn",
        (batch, *pair(1, 5), group * ins),
        (batch, *pair(1, 8), group * outs),
        kernel,
        group=group,
        values=Values.INTEGERS,
        row_order=draw(st.sampled_from(("oc_kh_kw", "kh_kw_oc"))),
        entries=draw(st.sampled_from((None, 18, 20))),
        **scalars,
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(deconvolutions())
def test_gradient_is_adjoint_to_the_deconvolution(sample: Sample) -> None:
    buffers = sample.buffers()
    arrays = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    weight_shape = sample.outputs["dw_data"].shape
    weight = np.random.default_rng(sample.seed).integers(-3, 4, weight_shape).astype(np.float64)
    dy = arrays["dy_data"]

    output = forward(arrays["x_data"], weight, dy.shape, sample.scalars)

    assert np.sum(dy * output) == np.sum(weight * _written(sample, buffers, DIRECT))


def test_row_orders_hold_the_same_values() -> None:
    oc_first = results(_of_integers(_BY_NAME["plain"]), options=DIRECT)["dw_data"]
    sample = _of_integers(_BY_NAME["plain"]).but("plain", row_order="kh_kw_oc")

    taps_first = results(sample, options=DIRECT)["dw_data"]

    assert not np.array_equal(taps_first, oc_first)
    expected_rows = oc_first.reshape(3, 6, 2).swapaxes(0, 1).reshape(1, 18, 2)
    np.testing.assert_array_equal(taps_first, expected_rows)


@pytest.mark.parametrize("name", ["18 entries", "19 entries", "every field", "the last core"])
def test_equivalent_arguments_make_the_same_plan(name: str) -> None:
    other = "20 entries, all of them" if name == "every field" else "plain"

    assert plan_of(_BY_NAME[name]) == plan_of(_BY_NAME[other])


@pytest.mark.parametrize("core_mask", [1, 0b1111, 0b1000_0000, 0b1111_1111])
def test_core_mask_changes_nothing(core_mask: int) -> None:
    private = BASE.but("private", function="fp_deconv_grad_filter_p")

    assert plan_of(BASE.but("shared", core_mask=core_mask)) == plan_of(private)


def test_rows_of_dy_data_beyond_the_implied_size_are_not_read() -> None:
    sample = _of_integers(_BY_NAME["output larger than implied"])
    buffers = sample.buffers()
    gradient = _written(sample, buffers).copy()
    dy = sample.inputs["dy_data"].view(buffers["dy_data"])
    dy[:, 4:] = np.nan
    dy[:, :, 4:] = np.nan

    np.testing.assert_array_equal(_written(sample, buffers), gradient)


def test_taps_that_never_meet_dy_data_are_zero_for_any_x_data() -> None:
    sample = _BY_NAME["output of one pixel"]

    gradient = _written(sample, _given(sample, x_data=np.inf, dy_data=1)).reshape(3, 2, 3, 2)

    assert np.all(gradient[:, 0, 0] == np.inf)
    assert np.count_nonzero(gradient) == 6, "tap (0, 0) alone meets the pixel"


def test_padding_beyond_everything_leaves_zeros() -> None:
    assert not np.any(results(_BY_NAME["padding beyond everything"])["dw_data"])


def test_hp_is_summed_in_float32_and_rounded_once() -> None:
    sample = deconvolution(
        *("long", (1, 64, 64, 1), (1, 64, 64, 1), (1, 1)),
        profile="mt7004",
        dtype=DataType.FLOAT16,
        values=Values.ONES,
    )

    assert results(sample)["dw_data"].item() == 4096, "sums in FLOAT16 end at 2048"


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.DOUBLE])
def test_reference_sums_in_float64(dtype: DataType) -> None:
    sample = deconvolution(
        *("cancels", (1, 1, 3, 1), (1, 1, 3, 1), (1, 1)), profile="reference", dtype=dtype
    )
    buffers = _given(sample, x_data=[[[[2.0**30], [1], [-(2.0**30)]]]], dy_data=1)

    assert _written(sample, buffers).item() == 1
