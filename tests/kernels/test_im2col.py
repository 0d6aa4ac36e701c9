"""aclnnIm2col against naive loops, the vendor's values and the laws of a copy."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contract.corpora import cases
from kernels.execution import execute, plan_of, results
from kernels.oracles.expectation import assert_meets
from kernels.oracles.im2col import columns_of, expected
from kernels.samples import im2col_backward
from kernels.samples.im2col import SAMPLES, unfold
from kernels.samples.sample import FILLER, Sample, Values
from kernels.samples.vendor_unfolds import UNFOLDS, VendorUnfold
from opserve_kernels.cases.fill import bits_of
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

Pair = tuple[int, int]
FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_BY_NAME = {sample.name: sample for sample in SAMPLES}
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
every_sample = pytest.mark.parametrize(
    "sample", [*SAMPLES, *_ON_REFERENCE], ids=lambda sample: f"{sample.name} on {sample.profile}"
)
laws = settings(max_examples=100, deadline=None, derandomize=True)


@every_sample
def test_columns_are_the_pixels_of_the_definition(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


_PATTERNS = {
    FLOAT: (0x7F800001, 0xFFC12345, 0x80000000, 0x00000001, 0x7F800000),
    FLOAT16: (0x7C01, 0xFE12, 0x8000, 0x0001, 0xFC00),
    BF16: (0x7F81, 0xFFC5, 0x8000, 0x0001, 0xFF80),
    DataType.DOUBLE: (0x7FF0000000000001, 0xFFF8000000012345, 0x8000000000000000, 1, 0x7FF << 52),
}
"""A signalling NaN, a quiet one with a sign and a payload, -0, a subnormal and an infinity."""


@pytest.mark.parametrize(
    ("dtype", "profile"),
    [
        (dtype, profile)
        for profile, support in OPERATORS["im2col"].support.items()
        for dtype in support.dtypes
    ],
)
@pytest.mark.parametrize("strides", [None, (30, 2)])
def test_a_copy_keeps_every_bit(dtype: DataType, profile: str, strides: Pair | None) -> None:
    layout = {} if strides is None else {"out": {"strides": strides, "offset": 1}}
    sample = unfold(
        "bits",
        (1, 1, 5),
        (1, 2),
        padding=(0, 1),
        dtypes=(dtype, dtype),
        profile=profile,
        layout=layout,
    )
    buffers = sample.buffers()
    patterns = bits_of(sample.inputs["self"].view(buffers["self"]))
    patterns[0, 0] = _PATTERNS[dtype]

    execute(sample, buffers)

    out = np.ascontiguousarray(sample.outputs["out"].view(buffers["out"]))
    assert bits_of(out).tolist() == [[0, *_PATTERNS[dtype]], [*_PATTERNS[dtype], 0]]


def test_a_cast_keeps_the_sign_of_zero() -> None:
    for dtypes in ((FLOAT, FLOAT16), (FLOAT16, FLOAT), (BF16, FLOAT16), (FLOAT, BF16)):
        sample = unfold("zero", (1, 1, 1), (1, 1), dtypes=dtypes)
        buffers = sample.buffers()
        sample.inputs["self"].view(buffers["self"])[...] = -0.0
        execute(sample, buffers)
        assert np.signbit(sample.outputs["out"].view(buffers["out"]).astype(np.float64)).all()


@pytest.mark.parametrize("profile", OPERATORS["im2col"].support)
def test_vendors_sample_program_computes_its_derived_value(profile: str) -> None:
    sample = replace(_BY_NAME["vendor's"], profile=profile)
    buffers = sample.buffers()
    image = sample.inputs["self"].view(buffers["self"])
    image[...] = np.arange(12).reshape(2, 2, 3)

    execute(sample, buffers)

    assert sample.outputs["out"].view(buffers["out"]).tolist() == [
        [0, 0, 0, 4],
        [0, 0, 3, 5],
        [0, 1, 0, 0],
        [0, 2, 0, 0],
        [0, 0, 0, 10],
        [0, 0, 9, 11],
        [0, 7, 0, 0],
        [6, 8, 0, 0],
    ]


def test_an_image_without_entries_needs_nothing_and_leaves_out_as_it_was() -> None:
    sample = _BY_NAME["no entries"]
    buffers = sample.buffers()
    plan = plan_of(sample)

    execute(sample, buffers)

    assert (plan.workspace_size, plan.units) == (0, 0)
    assert np.all(buffers["out"] == FILLER)


@pytest.mark.parametrize(
    ("profile", "given_", "made", "expected_"),
    [
        ("ascend910b", FLOAT, FLOAT16, np.inf),
        ("ascend910", FLOAT, FLOAT16, 65504),
        ("ascend910", BF16, FLOAT16, 65504),
        ("ascend910", FLOAT, BF16, np.inf),
        ("reference", FLOAT, FLOAT16, np.inf),
    ],
)
def test_a_cast_of_an_infinity_saturates_where_the_device_does(
    profile: str, given_: DataType, made: DataType, expected_: float
) -> None:
    sample = unfold("cast", (1, 1, 1), (1, 1), dtypes=(given_, made), profile=profile)
    buffers = sample.buffers()
    sample.inputs["self"].view(buffers["self"])[...] = np.inf

    execute(sample, buffers)

    assert sample.outputs["out"].view(buffers["out"]).item() == expected_


@pytest.mark.parametrize("row", UNFOLDS, ids=lambda row: row.sample.name)
def test_unit_tests_of_the_vendor_have_their_status(row: VendorUnfold) -> None:
    if row.status is None:
        plan_of(row.sample)
        return
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(row.sample)
    assert (refusal.value.status, refusal.value.parameter) == (row.status, row.parameter)


def test_recorded_unfolds_of_pytorch_are_all_accepted_and_copied() -> None:
    recorded = [case for case in cases("torch") if case["op"] == "aclnnIm2colBackward"]
    assert len(recorded) == 222
    for case in recorded:
        arguments = case["args"]
        kernel = tuple(arguments["kernelSize"])
        *batch, rows, length = arguments["gradOutput"]
        image = (*batch, rows // prod(kernel), *arguments["inputSize"])
        steps = {name: tuple(arguments[name]) for name in ("dilation", "padding", "stride")}
        sample = unfold(case["case_id"], image, kernel, **steps)
        buffers = sample.buffers()
        pixels = sample.logical(buffers)["self"]

        execute(sample, buffers)

        columns = sample.outputs["out"].view(buffers["out"])
        assert columns.shape == (*batch, rows, length)
        np.testing.assert_array_equal(columns, columns_of(pixels, sample.scalars))


def _pairs(low: int, high: int) -> st.SearchStrategy[Pair]:
    return st.tuples(st.integers(low, high), st.integers(low, high))


@st.composite
def drawn_calls(draw: st.DrawFn) -> Sample:
    """Calls of any geometry on `reference`, in DOUBLE."""
    size, kernel = draw(_pairs(1, 9)), draw(_pairs(1, 3))
    scalars: dict[str, Any] = {
        "dilation": draw(_pairs(1, 3)),
        "padding": draw(_pairs(0, 3)),
        "stride": draw(_pairs(1, 4)),
    }
    for axis in range(2):
        reach = scalars["dilation"][axis] * (kernel[axis] - 1) + 1
        assume(size[axis] + 2 * scalars["padding"][axis] >= reach)
    batch = draw(st.sampled_from([(), (1,), (3,)]))
    dtypes = (DataType.DOUBLE,) * 2
    return unfold(
        "drawn", (*batch, 2, *size), kernel, dtypes=dtypes, profile="reference", **scalars
    )


@laws
@given(sample=drawn_calls())
def test_im2col_is_the_adjoint_of_im2col_backward(sample: Sample) -> None:
    buffers = sample.buffers()
    image = sample.logical(buffers)["self"]
    execute(sample, buffers)
    columns = sample.outputs["out"].view(buffers["out"])
    folded = _folded(sample, image.shape)
    back = folded.buffers()
    gradient = folded.logical(back)["grad_output"]
    execute(folded, back)

    products = columns * gradient
    here, there = np.sum(products), np.sum(image * folded.outputs["out"].view(back["out"]))
    assert abs(here - there) <= 4 * products.size * 2.0**-53 * np.sum(np.abs(products))


@laws
@given(sample=drawn_calls())
def test_a_pixel_is_copied_as_often_as_im2col_backward_counts(sample: Sample) -> None:
    ones = sample.but("ones", self=replace(sample.inputs["self"], values=Values.ONES))
    copies = results(ones)["out"]
    folded = _folded(sample, sample.inputs["self"].shape, Values.ONES)

    counted = results(folded)["out"]

    assert np.sum(copies) == np.sum(counted)
    back = folded.buffers()
    folded.inputs["grad_output"].view(back["grad_output"])[...] = copies
    execute(folded, back)
    np.testing.assert_array_equal(folded.outputs["out"].view(back["out"]), counted)


def _folded(sample: Sample, image: tuple[int, ...], values: Values = Values.NORMAL) -> Sample:
    """The call of im2col_backward with the same geometry."""
    scalars = dict(sample.scalars)
    kernel = scalars.pop("kernel_size")
    dtypes = (DataType.DOUBLE,) * 2
    return im2col_backward.image(
        "folded", image, kernel, dtypes=dtypes, values=values, profile="reference", **scalars
    )


@laws
@given(sample=drawn_calls())
def test_a_device_copies_what_the_definition_says(sample: Sample) -> None:
    given_ = replace(sample.inputs["self"], dtype=FLOAT16)
    out = replace(sample.outputs["out"], dtype=FLOAT16)
    device = replace(sample.but("device", self=given_, out=out), profile="ascend910b")
    buffers = device.buffers()
    image = device.logical(buffers)["self"]

    execute(device, buffers, units=1)

    found = device.outputs["out"].view(buffers["out"])
    np.testing.assert_array_equal(found, columns_of(image, device.scalars))


def test_shares_of_a_large_call_copy_every_element_once() -> None:
    sample = unfold("large", (2, 8, 96, 96), (3, 3), padding=(1, 1))
    options = PlanOptions(threads=3)
    buffers = sample.buffers()
    expectation = expected(sample, buffers)["out"]

    execute(sample, buffers, options=options)

    assert len(plan_of(sample, options).shares) == 3
    assert len(plan_of(sample).shares) == 1
    assert_meets(sample.outputs["out"].view(buffers["out"]), expectation)


@pytest.mark.parametrize("parameter", ["kernel_size", "dilation", "padding", "stride"])
def test_a_value_one_below_its_least_is_refused_and_the_least_is_not(parameter: str) -> None:
    least = {limit.parameter: limit.least for limit in OPERATORS["im2col"].limits}[parameter]
    sample = unfold("least", (1, 1, 1), (1, 1))
    assert sample.scalars[parameter][0] == least
    assert plan_of(sample).units == 1

    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample.but("below", **{parameter: (least - 1, least)}))
    assert refusal.value.parameter == parameter


def test_a_requested_algorithm_is_refused() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(_BY_NAME["4-D form"], PlanOptions(algorithms=("image: fold",)))
    assert refusal.value.parameter == "algorithms"
