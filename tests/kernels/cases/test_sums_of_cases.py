"""Sums of a case: their length, accumulator, intermediate roundings and result.

A verdict's tolerance follows from that; one that is too wide lets wrong kernels pass.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sum import Sum
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.operators.conv2d_backprop_filter.cases.calls import FilterCall
from opserve_kernels.operators.conv2d_backprop_input.cases.calls import InputCall
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.deconv_grad_filter.cases.calls import DeconvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType

FLOAT, HALF, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
HALVES, BRAINS, FLOATS = (HALF,) * 3, (BF16,) * 3, (FLOAT,) * 3
BLOCKS = BlockCall(image=(2, 20, 5, 6), weight=(24, 5, 3, 2), groups=4)  # 2 x 3 x 5 positions
DSP = DeconvolutionCall(x=(2, 3, 4, 4), dy=(2, 7, 9, 6), kernel=(3, 2), stride=(2, 2), group=2)


def convolution(profile: str = "ascend910b", **changes: Any) -> Case:
    call = ConvolutionCall(input=(2, 4, 7, 9), weight=(6, 4, 3, 2), **changes)
    return call.case(Setting(profile=profile))


def in_groups(profile: str, **changes: Any) -> Case:
    call = ConvolutionCall(input=(2, 4, 7, 9), weight=(6, 2, 3, 2), groups=2, **changes)
    return call.case(Setting(profile=profile))


@pytest.mark.parametrize(
    ("case", "terms", "axes"),
    [
        (FoldCall(out=(2, 3, 8, 9), kernel=(3, 2)).case(), 3 * 2, "n c h w"),
        (FoldCall(out=(3, 8, 9), kernel=(3, 2)).case(), 3 * 2, "c h w"),
        (InputCall(BLOCKS).case(), 24 // 4 * 3 * 2, "n c1 h w c0"),
        (FilterCall(BLOCKS).case(), 2 * 3 * 5, "gc1k n1 n0 c0"),
        (DSP.case(Setting(profile="ft78ne")), 2 * 3 * 4, "g k c"),
    ],
    ids=lambda given: given.operator if isinstance(given, Case) else None,
)
def test_sums_have_the_products_of_the_formula(case: Case, terms: int, axes: str) -> None:
    (one,) = sums_of(case)
    assert (one.terms, one.axes) == (terms, tuple(axes.split()))


PASSED: Sequence[tuple[Case, Sequence[str]]] = [  # what each output's sums are rounded to before
    (convolution(dtypes=HALVES), ["", "", ""]),
    (convolution(dtypes=HALVES, results=FLOATS), ["float16", "", "float16"]),
    (convolution(dtypes=BRAINS, results=FLOATS), ["bfloat16", "", "bfloat16"]),
    (convolution("reference", dtypes=HALVES, results=FLOATS), ["", "", ""]),
    (convolution(cube_math_type=2), ["float16", "", ""]),
    (convolution(cube_math_type=1), ["", "", ""]),
    (convolution("ascend910", cube_math_type=1), ["float16", "", ""]),
    (in_groups("ascend910b", cube_math_type=2), ["float16", "float16", ""]),
    (in_groups("reference", cube_math_type=2), ["", "", ""]),
    (FoldCall(out=(2, 3, 8, 9), kernel=(3, 2), dtypes=(HALF, FLOAT)).case(), ["float16"]),
    (FoldCall(out=(2, 3, 8, 9), kernel=(3, 2), dtypes=(HALF, HALF)).case(), [""]),
    (InputCall(BLOCKS).case(), [""]),
    (FilterCall(BLOCKS).case(), [""]),
]


@pytest.mark.parametrize(("case", "passed"), PASSED, ids=lambda given: str(given)[:60])
def test_sums_pass_through_the_dtypes_that_the_contract_names(
    case: Case, passed: Sequence[str]
) -> None:
    assert [" ".join(one.roundings) for one in sums_of(case)] == passed


def ends(case: Case) -> list[bool]:
    return [one.saturates for one in sums_of(case)]


def test_sums_beyond_float16_end_as_the_profile_says() -> None:
    assert ends(convolution(dtypes=HALVES)) == [False, False, False]
    assert ends(convolution("ascend910", dtypes=HALVES)) == [True, True, True]
    assert ends(convolution("ascend910", cube_math_type=1)) == [True, False, False]
    assert ends(InputCall(BLOCKS).case()) == [True]
    assert ends(FilterCall(BLOCKS).case()) == [False]


def test_only_the_reference_device_keeps_sums_in_float64() -> None:
    def kept(found: Sequence[Sum]) -> set[str]:
        return {one.accumulator for one in found}

    for dtypes in (HALVES, BRAINS, FLOATS):
        assert kept(sums_of(convolution(dtypes=dtypes))) == {"float32"}
        assert kept(sums_of(convolution("reference", dtypes=dtypes))) == {"float64"}
    assert kept(sums_of(convolution("reference", dtypes=(DOUBLE,) * 3))) == {"float64"}
