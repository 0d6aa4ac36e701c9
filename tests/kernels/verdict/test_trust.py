"""Trust is asked of elements that sum products, and of enough of them."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from kernels.cases.runs import expected_of
from kernels.oracles.convolution_backward import geometry_of, gradients
from kernels.oracles.im2col_backward import gradients as fold
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case, Fill, Kind
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.trust import FEW, check_trust, contributing_elements
from opserve_kernels.verdict.verdict import Status

_HALF = DataType.FLOAT16
_HALVES = (_HALF, _HALF, _HALF)
CALLS = [
    ConvolutionCall(input=(2, 3, 9), weight=(4, 3, 3)),
    ConvolutionCall(input=(2, 3, 9), weight=(4, 3, 1), stride=(4,)),
    ConvolutionCall(input=(1, 1, 20), weight=(1, 1, 2), dilation=(13,)),
    ConvolutionCall(input=(1, 2, 3, 2), weight=(2, 2, 1, 2), stride=(1, 3), padding=(2, 1)),
    ConvolutionCall(input=(1, 2, 6, 5), weight=(2, 2, 3, 2), padding=(3, 0, 1, 2), stride=(2, 2)),
    ConvolutionCall(input=(1, 4, 2, 3), weight=(6, 2, 7, 5), padding=(6, 4), groups=2),
    ConvolutionCall(input=(2, 2, 4, 3), weight=(2, 3, 2, 1), stride=(3, 2), transposed=True),
    ConvolutionCall(
        input=(2, 2, 3, 3), weight=(2, 3, 3, 2), padding=(3, 1), dilation=(2, 1), transposed=True
    ),
    ConvolutionCall(input=(1, 2, 5, 4, 6), weight=(2, 1, 1, 2, 2), stride=(2, 3, 1), groups=2),
    ConvolutionCall(
        input=(2, 9, 7, 2, 5), weight=(9, 9, 3, 1, 2), stride=(2, 3, 1), padding=(0, 1, 1)
    ),
]
FOLDS = [
    FoldCall(out=(2, 3, 7, 6), kernel=(2, 2), stride=(3, 2)),
    FoldCall(out=(1, 3, 2, 9), kernel=(1, 3), padding=(2, 1), dilation=(1, 4)),
]
SMALL = [
    ConvolutionCall(input=(1, 1, 1, 1), weight=(1, 1, 1, 1), dtypes=_HALVES),
    ConvolutionCall(input=(1, 1, 1, 1, 255), weight=(1, 1, 1, 1, 255)),
    ConvolutionCall(input=(1, 1, 256), weight=(1, 1, 2), dilation=(255,), dtypes=_HALVES),
]


def of_ones(case: Case) -> Mapping[str, Doubles]:
    """The number of products in each element's sum."""
    dy, x, w = (np.ones(case.tensors[name].shape) for name in ("grad_output", "input", "weight"))
    found = gradients(dy, x, w, geometry_of(case.arguments))
    return {name: getattr(found, name) for name in case.written}


@pytest.mark.parametrize("call", CALLS)
def test_elements_that_sum_products_are_counted(call: ConvolutionCall) -> None:
    case = call.case()
    expected = {name: np.count_nonzero(counts) for name, counts in of_ones(case).items()}
    assert contributing_elements(case) == expected


@pytest.mark.parametrize("call", FOLDS)
def test_pixels_that_columns_reach_are_counted(call: FoldCall) -> None:
    case = call.case()
    columns = np.ones(case.tensors["grad_output"].shape)
    assert contributing_elements(case) == {"out": np.count_nonzero(fold(columns, case.arguments))}


def test_sums_of_nothing_are_not_requested() -> None:
    case = ConvolutionCall(input=(0, 3, 4, 4), weight=(2, 3, 3, 3)).case()
    assert set(contributing_elements(case).values()) == {0}
    assert statuses(case, expected_zeros(case)) == {Status.PASSED}


@pytest.mark.parametrize(("nonzero", "status"), [(29, Status.MISTRUSTED), (30, Status.PASSED)])
def test_expected_values_that_are_mostly_zero_are_mistrusted(nonzero: int, status: Status) -> None:
    case = FoldCall(out=(1, 10, 10), kernel=(1, 1)).case()
    expected = np.zeros(100)
    expected[:nonzero] = -1
    assert statuses(case, {"out": expected.reshape(1, 10, 10)}) == {status}


def test_positions_between_strides_need_not_be_other_than_0() -> None:
    call = ConvolutionCall(
        input=(1, 8, 9, 9), weight=(8, 8, 1, 1), stride=(3, 3), mask=(True, False, False)
    )
    expected = np.zeros((1, 8, 9, 9))
    expected[:, :, ::3, ::3] = 1
    assert statuses(call.case(), {"grad_input": expected}) == {Status.PASSED}
    expected[:, 2:] = 0
    assert statuses(call.case(), {"grad_input": expected}) == {Status.MISTRUSTED}


def test_an_output_of_few_elements_counts_with_the_others() -> None:
    case = ConvolutionCall(input=(1, 2, 8), weight=(4, 2, 2)).case()
    expected = {"grad_input": np.ones((1, 2, 8)), "grad_weight": np.ones((4, 2, 2))}
    assert max(contributing_elements(case).values()) < FEW
    assert statuses(case, {**expected, "grad_bias": np.zeros(4)}) == {Status.PASSED}
    assert statuses(case, expected_zeros(case)) == {Status.MISTRUSTED}


def test_an_output_of_many_elements_is_requested_by_itself() -> None:
    case = ConvolutionCall(input=(1, 8, 8), weight=(8, 8, 1)).case()
    expected = {**expected_zeros(case), "grad_input": np.ones((1, 8, 8))}
    checks = {check.tensor: check.status for check in check_trust(case, expected)}
    assert checks["grad_input"] is Status.PASSED
    assert checks["grad_weight"] is Status.MISTRUSTED


def test_integers_that_are_thinned_to_nothing_are_mistrusted() -> None:
    case = ConvolutionCall(input=(2, 4, 9, 9), weight=(6, 4, 3, 3)).case()
    thin = Fill(kind=Kind.INTEGER, bound=8, thinning=12)
    tensors = {**case.tensors, "grad_output": replace(case.tensors["grad_output"], fill=thin)}
    thinned = replace(case, tensors=tensors)
    assert Status.MISTRUSTED in statuses(thinned, values(thinned))
    assert statuses(case, values(case)) == {Status.PASSED}


@pytest.mark.parametrize("call", [*CALLS, *SMALL])
def test_integers_of_the_suites_are_trusted(call: ConvolutionCall) -> None:
    for seed in range(3):
        assert statuses(call.case(), values(call.case(), seed)) == {Status.PASSED}


def test_real_numbers_are_not_checked_for_trust() -> None:
    case = CALLS[0].case(Setting(kind=Kind.NORMAL))
    assert statuses(case, expected_zeros(case)) == set()


def statuses(case: Case, expected: Mapping[str, Doubles]) -> set[Status]:
    return {check.status for check in check_trust(case, expected)}


def values(case: Case, seed: int = 0) -> Mapping[str, Doubles]:
    return {name: expected.values for name, expected in expected_of(case, seed).items()}


def expected_zeros(case: Case) -> Mapping[str, Doubles]:
    return {name: np.zeros(case.tensors[name].shape) for name in case.written}
