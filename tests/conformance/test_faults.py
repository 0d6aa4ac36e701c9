"""Faults: each is caught by `standard` as the page says, and a right kernel is not accused."""

from functools import cache

import pytest

from conformance.faulty.faults import FAULTS
from conformance.judging import findings, verdict_of
from conformance.page import CHECKS, PAGE, SUITES, examples, page
from conformance.survey import RIGHT, Seen, small_cases, survey
from kernels.cases.runs import golden_of
from opserve_kernels.cases.case import Case

_TOLD = tuple(examples(PAGE.read_text()))
_SAMPLE = 4  # one of so many cases of `smoke` for the right kernel


@cache
def _standard() -> dict[str, Case]:
    return {case.id: case for case in small_cases("standard")}


@pytest.mark.parametrize("fault", FAULTS)
def test_standard_catches_a_fault_as_the_page_says(fault: str) -> None:
    told = {layer: example for name, layer, example in _TOLD if name == fault}

    assert told
    for layer, example in told.items():
        case = _standard()[example]
        golden = golden_of(case, 0)
        assert layer in findings(verdict_of(case, 0, golden, FAULTS[fault].kernel)), example
        assert findings(verdict_of(case, 0, golden, RIGHT)) == set(), example


def test_every_layer_and_check_catches_some_fault() -> None:
    assert {layer for _, layer, _ in _TOLD} == set(CHECKS)


def test_a_right_kernel_of_another_making_passes() -> None:
    accused = {
        case.id: found
        for case in small_cases("smoke")[::_SAMPLE]
        if (found := findings(verdict_of(case, 0, golden_of(case, 0), RIGHT)))
    }

    assert accused == {}


def test_the_page_counts_where_a_fault_shows_and_where_it_is_caught() -> None:
    seen = {name: Seen() for name in FAULTS}
    cases = [case for case in _standard().values() if "2-D groups" in case.tags][:1]

    survey(cases, 0, seen)
    text = page(dict.fromkeys(SUITES, seen))

    assert (seen["group offset"].shows, seen["group offset"].caught) == (1, 1)
    assert seen["output padding"].shows == 0
    shown = {name for name, _, _ in examples(text)}
    assert {"padding", "group offset", "kernel flipped", "input overwritten"} <= shown
    assert not {"output padding", "refusal code", "masked output"} & shown
