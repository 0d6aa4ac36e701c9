"""Expected values: operands rounded by the call, and descriptions of sums for the verdict."""

from typing import Any

import numpy as np
import pytest

from kernels.cases.runs import calls_of, expected_of, run, verdicts
from kernels.oracles.rounding import round_to_half, round_to_hf32
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout, Setting
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.cases.sums import multiply_adds, sums_of
from opserve_kernels.conformance.expected import prepared_calls
from opserve_kernels.operators.conv2d_backprop_filter.cases.calls import FilterCall
from opserve_kernels.operators.conv2d_backprop_input.cases.calls import InputCall
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.deconv_grad_filter.cases.calls import DeconvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.verdict import Status

FLOAT, HALF, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE


def _convolution(kind: Kind = Kind.NORMAL, profile: str = "ascend910b", **changes: Any) -> Case:
    call = ConvolutionCall(input=(2, 4, 7, 9), weight=(6, 4, 3, 2), **changes)
    return call.case(Setting(kind=kind, profile=profile))


@pytest.mark.parametrize(
    ("case", "rounded"),
    [
        (_convolution(cube_math_type=1), round_to_hf32),
        (_convolution(cube_math_type=3), round_to_hf32),
        (_convolution(cube_math_type=2), round_to_half),
        (_convolution(cube_math_type=1, profile="ascend910"), round_to_half),
        (_convolution(Kind.SPECIAL, cube_math_type=2, dtypes=(BF16,) * 3), round_to_half),
        (_convolution(cube_math_type=3, profile="reference"), round_to_hf32),
    ],
)
def test_operands_are_rounded_as_the_call_says_but_for_the_bias(case: Case, rounded: Any) -> None:
    given = {name: placed.elements for name, placed in arrays_of(case, 3).items()}

    products, bias = calls_of(case, 3, sized=())

    assert products.case.written == ("grad_input", "grad_weight")
    assert bias.case.written == ("grad_bias",)
    for name, operand in products.operands.items():
        with np.errstate(all="ignore"):
            expected = rounded(given[name].astype(np.float64))
        np.testing.assert_array_equal(operand, expected)
        np.testing.assert_array_equal(bias.operands[name], given[name].astype(np.float64))
    assert any(
        not np.array_equal(operand, bias.operands[name], equal_nan=True)
        for name, operand in products.operands.items()
    )


def test_half_of_a_device_that_saturates_stays_finite() -> None:
    case = _convolution(Kind.SPECIAL, cube_math_type=1, profile="ascend910")

    products, _ = calls_of(case, 0, sized=())

    largest = max(np.nanmax(np.abs(operand)) for operand in products.operands.values())
    assert largest == 65504.0


def test_special_values_survive_hf32() -> None:
    case = _convolution(Kind.SPECIAL, cube_math_type=3)
    given = arrays_of(case, 0)["input"].elements

    operand = calls_of(case, 0, sized=())[0].operands["input"]

    np.testing.assert_array_equal(np.isnan(operand), np.isnan(given))
    np.testing.assert_array_equal(np.isinf(operand), np.isinf(given))


@pytest.mark.parametrize("case", [_convolution(), _convolution(dtypes=(HALF,) * 3)])
def test_operands_as_given_make_one_call(case: Case) -> None:
    (call,) = calls_of(case, 0, sized=())

    assert call.case.profile == "reference"
    assert call.case.written == case.written
    assert {tensor.dtype for tensor in call.case.tensors.values()} == {DOUBLE}


_LAID = Setting(layouts={"input": Layout(strides=(2000, 300, 20, 2), offset=5)})
_CALLS = [
    _convolution(Kind.INTEGER),
    ConvolutionCall(input=(2, 4, 7, 9), weight=(6, 4, 3, 2)).case(_LAID),
    _convolution(Kind.NORMAL, cube_math_type=3),
    _convolution(Kind.OFFSET, cube_math_type=2),
    _convolution(Kind.SPECIAL, dtypes=(BF16,) * 3),
    _convolution(Kind.OUTLIERS, dtypes=(HALF,) * 3, profile="ascend910"),
    _convolution(Kind.TINY, dtypes=(HALF,) * 3),
    _convolution(Kind.UNIFORM, dtypes=(DOUBLE, FLOAT, BF16), profile="reference"),
    ConvolutionCall(
        input=(2, 4, 5, 5),
        weight=(4, 3, 3, 3),
        stride=(2, 3),
        groups=2,
        transposed=True,
        output_padding=(1, 2),
        dtypes=(HALF, HALF, HALF),
    ).case(Setting(kind=Kind.NORMAL)),
    FoldCall(out=(2, 3, 8, 9), kernel=(3, 2), padding=(1, 1), dtypes=(HALF, FLOAT)).case(
        Setting(kind=Kind.NORMAL)
    ),
    InputCall(BlockCall(image=(2, 20, 5, 6), weight=(24, 5, 3, 2), groups=4)).case(),
    FilterCall(BlockCall(image=(2, 20, 5, 6), weight=(24, 5, 3, 2), groups=4, raw=True)).case(),
    DeconvolutionCall(x=(2, 3, 4, 4), dy=(2, 7, 9, 6), kernel=(3, 2), stride=(2, 2), group=2).case(
        Setting(profile="ft78ne", kind=Kind.UNIFORM)
    ),
]


@pytest.mark.parametrize("case", _CALLS, ids=lambda case: f"{case.id} {case.kind}")
def test_own_kernels_meet_the_expected_values(case: Case) -> None:
    placed = arrays_of(case, 1)
    run(case, placed)
    given = {name: placed[name].elements for name in case.written}

    found = verdicts(case, given, expected_of(case, 1))

    assert [(verdict.name, verdict.status) for verdict in found] == [
        (name, Status.PASSED) for name in case.written
    ]
    assert tuple(one.output for one in sums_of(case)) == case.written


def test_sums_are_as_long_as_the_formula_says() -> None:
    plain = {one.output: one for one in sums_of(_convolution())}
    assert (plain["grad_input"].terms, plain["grad_input"].multiply_adds) == (36, 11520)
    assert (plain["grad_weight"].terms, plain["grad_bias"].terms) == (80, 80)
    assert plain["grad_weight"].axes == ("k", "c", "kh", "kw")
    assert multiply_adds(_convolution()) == 2 * 11520 + 480

    call = ConvolutionCall(
        input=(2, 4, 5), weight=(4, 3, 3), stride=(2,), groups=2, transposed=True
    )
    grad_input, grad_weight, grad_bias = sums_of(call.case())
    assert (grad_input.terms, grad_weight.terms, grad_bias.terms) == (9, 10, 22)
    assert grad_input.axes == ("n", "c", "w")


def test_integers_sum_exactly_only_where_nothing_narrower_is_passed() -> None:
    exact = _convolution(Kind.INTEGER)
    narrowed = _convolution(Kind.INTEGER, cube_math_type=2)

    assert [one.is_exact for one in sums_of(exact)] == [True, True, True]
    assert [one.is_exact for one in sums_of(narrowed)] == [False, True, True]
    assert [one.is_exact for one in sums_of(_convolution())] == [False, False, False]


@pytest.mark.parametrize(("batch", "thinning"), [(1, 0), (64, 0), (65, 1), (1024, 4)])
def test_gradient_is_thinned_until_sums_stay_exact(batch: int, thinning: int) -> None:
    case = ConvolutionCall(input=(batch, 1, 32, 32), weight=(1, 1, 1, 1)).case()

    fill = case.tensors["grad_output"].fill
    assert fill is not None
    assert fill.thinning == thinning
    assert all(one.is_exact for one in sums_of(case))


def test_integers_that_sum_exactly_need_no_magnitudes() -> None:
    exact, real = _convolution(Kind.INTEGER), _convolution()
    narrowed = _convolution(Kind.INTEGER, cube_math_type=2)
    thinned = ConvolutionCall(input=(65, 1, 32, 32), weight=(1, 1, 1, 1)).case()

    found = [expected_of(case, 0) for case in (exact, real, narrowed, thinned)]

    assert [
        [name for name, one in each.items() if one.magnitudes is not None] for each in found
    ] == [
        [],
        ["grad_input", "grad_weight", "grad_bias"],
        ["grad_input"],
        ["grad_input", "grad_weight", "grad_bias"],
    ]


def test_magnitudes_are_sums_over_magnitudes() -> None:
    case = _convolution()
    (call,) = calls_of(case, 0, sized=("grad_weight",))
    values, sizes = prepared_calls(call)

    assert sizes.case.written == ("grad_weight",)
    assert values.case.written == case.written
    for name in case.inputs:
        given = arrays_of(case, 0)[name].elements.astype(np.float64).reshape(-1)
        np.testing.assert_array_equal(values.storages[name], given)
        np.testing.assert_array_equal(sizes.storages[name], np.abs(given))
        assert (given < 0).any()
