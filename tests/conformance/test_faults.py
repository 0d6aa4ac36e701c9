"""Faults: `standard` detects each as documented, and passes a right kernel."""

from collections import Counter
from functools import cache

import pytest

from conformance.faulty.faults import FAULTS
from conformance.faulty.forms import OPERATORS
from conformance.faulty.kernel import Kernel
from conformance.judging import attempt, findings, memory_of, verdict_of
from conformance.page import CHECKS, PAGE, examples, layers_named, missed, page
from conformance.survey import (
    PRODUCTS_LIMIT,
    RIGHT,
    Seen,
    cases_of_seed,
    small_cases,
    survey,
)
from kernels.cases.runs import expected_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.cases.sums import multiply_adds

_EXAMPLES, _LAYERS = examples(PAGE.read_text()), layers_named(PAGE.read_text())
_SAMPLE = 4  # one of so many cases of `smoke` for the right kernel


@cache
def _standard() -> dict[str, Case]:
    return {case.id: case for case in small_cases("standard")}


def _found(case: Case, kernel: Kernel) -> set[str]:
    made = attempt(kernel, case, memory_of(case, 0))
    return findings(verdict_of(case, expected_of(case, 0), made))


@pytest.mark.parametrize("fault", FAULTS)
def test_standard_catches_a_fault_as_the_page_says(fault: str) -> None:
    found = [_found(_standard()[one], FAULTS[fault].kernel) for one in _EXAMPLES[fault]]

    assert found
    assert all(found)
    assert set[str]().union(*found) >= _LAYERS[fault] != set()


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_right_kernel_is_not_accused_where_wrong_ones_are(operator: str) -> None:
    cases = [_standard()[one] for ids in _EXAMPLES.values() for one in ids]
    own = {case.id: case for case in cases if case.operator == operator}

    assert own
    assert [one for one, case in own.items() if _found(case, RIGHT)] == []


def test_every_layer_and_check_catches_some_fault() -> None:
    assert set[str]().union(*_LAYERS.values()) == set(CHECKS)


def test_a_right_kernel_of_another_making_passes() -> None:
    accused = {
        case.id: found for case in small_cases("smoke")[::_SAMPLE] if (found := _found(case, RIGHT))
    }

    assert accused == {}


def test_seeds_leave_out_no_case_and_run_costly_ones_once() -> None:
    ran = Counter(case.id for seed in range(3) for case in cases_of_seed(seed, 3))

    every = [case for case in SUITES["standard"](0).cases if "drawn" not in case.tags]
    costly = {case.id for case in every if multiply_adds(case) > PRODUCTS_LIMIT}
    assert costly
    for case in every:
        assert ran[case.id] == (0 if case.is_refused else 1 if case.id in costly else 3)


def test_the_page_counts_where_a_fault_shows_and_where_it_is_caught() -> None:
    seen = {name: Seen() for name in FAULTS}
    cases = [case for case in _standard().values() if "2-D groups" in case.tags][:1]

    survey(cases, 0, seen)
    text = page({"smoke": seen, "standard": seen})

    offset = seen["group offset"]
    assert dict(offset.shows) == dict(offset.caught) == {"convolution_backward": 1}
    assert "not caught: output padding of any operator" in missed(seen)
    assert examples(text)["padding"] == [cases[0].id]
    assert {"exact", "rounding"} & layers_named(text)["group offset"]
    assert not layers_named(text)["output padding"]
    assert not {"output padding", "refusal code", "masked output"} & set(examples(text))
