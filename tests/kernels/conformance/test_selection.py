"""Selection of cases: every condition alone and together."""

import pytest

from kernels.cases.suites import smoke
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.verdict.judge_case import standards_of

CASES = smoke(0).cases
ONE = CASES[0]


def test_no_condition_selects_every_case() -> None:
    assert Wanted().of(CASES) == CASES


def test_a_case_must_meet_every_condition() -> None:
    wanted = Wanted(operators=(ONE.operator,), profile=ONE.profile)
    found = wanted.of(CASES)
    assert 0 < len(found) < len(CASES)
    assert {(case.operator, case.profile) for case in found} == {(ONE.operator, ONE.profile)}
    assert Wanted(operators=(ONE.operator,), profile="ft78ne").of([ONE]) == ()


def test_one_matching_pattern_is_enough() -> None:
    assert Wanted(patterns=("none", ONE.id)).of(CASES) == (ONE,)


@pytest.mark.parametrize("known", [(), ("im2col_backward",)])
def test_an_operator_that_does_not_exist_is_refused(known: tuple[str, ...]) -> None:
    with pytest.raises(
        InvalidArgument, match="operator does not accept add; it accepts convolution_backward"
    ):
        Wanted(operators=(*known, "add"))


def test_standards_are_named_once_and_gates_are_reported() -> None:
    found = standards_of(("webnn-ulp", "webnn-ulp"), ("mlu-ops", "webnn-ulp"))
    assert found.reported == ("webnn-ulp", "mlu-ops")
    assert found.gates == ("mlu-ops", "webnn-ulp")


@pytest.mark.parametrize("gates", [False, True])
def test_a_standard_that_does_not_exist_is_refused(*, gates: bool) -> None:
    names = ((), ("mine",)) if gates else (("mine",), ())
    parameter = "gates" if gates else "standards"
    with pytest.raises(
        InvalidArgument, match=f"{parameter} does not accept mine; it accepts cann-ecosystem"
    ):
        standards_of(*names)
