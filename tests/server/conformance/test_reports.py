"""Results that clients report: refusals, and the stored part of the rest."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.conform.sample_results import SAMPLE, folded
from opserve_kernels.conformance.record import (
    REASON_CHARACTERS,
    VERDICT_CHARACTERS,
    WORST,
    CaseResult,
    result_of,
)
from opserve_kernels.verdict.json_form import from_json, to_json
from opserve_server.calls import MEMBERS_LIMIT
from opserve_server.conformance.calls import ReportRun
from opserve_server.conformance.reports import (
    check_report,
    checked,
    parts_of,
)
from opserve_server.core.errors import InvalidArgument

PASSED = CaseResult(case="fold.1", status="PASSED")
FAILED = result_of(folded().verdict, seconds=0.25)
REPORT = ReportRun(
    target="nightly",
    suite="my layers",
    digest=f"sha256:{'0' * 64}",
    tool="opserve 1.2",
    results=(PASSED, FAILED),
)


def verdict(**others: Any) -> str:
    """The failed one's, with other members."""
    return json.dumps(json.loads(FAILED.verdict) | others)


def test_results_that_opserve_judges_are_kept_unchanged() -> None:
    results = [result_of(one.verdict, seconds=one.seconds) for one in SAMPLE.results]
    assert checked(results) == results
    assert from_json(json.loads(results[0].verdict)) == SAMPLE.results[0].verdict
    check_report(replace(REPORT, results=tuple(results)))


def test_a_verdict_on_what_passed_is_not_kept() -> None:
    right = SAMPLE.results[1].verdict
    result = CaseResult(case=right.case, status="PASSED", verdict=json.dumps(to_json(right)))
    assert [one.verdict for one in checked([result])] == [""]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"target": "a b"}, "target"),
        ({"target": "t" * 129}, "target"),
        ({"suite": ""}, "suite"),
        ({"suite": "a\nb"}, "suite"),
        ({"tool": "\x1b[31m"}, "tool"),
        ({"seed": -1}, "seed"),
        ({"digest": "sha256:00"}, "digest"),
        ({"digest": f"{REPORT.digest}\n"}, "digest"),
        ({"results": ()}, "results does not accept none; it accepts 1 to 20000"),
        ({"results": (PASSED, FAILED, PASSED)}, "each case once"),
    ],
)
def test_a_run_that_is_out_of_bounds_is_refused(others: Any, message: str) -> None:
    check_report(REPORT)
    with pytest.raises(InvalidArgument, match=message):
        check_report(replace(REPORT, **others))


@pytest.mark.parametrize(
    ("others", "member"),
    [
        ({"case": ""}, "case"),
        ({"case": "a b"}, "case"),
        ({"case": "x" * 129}, "case"),
        ({"status": "FINE"}, "status"),
        ({"status": ""}, "status"),
        ({"reason": "r" * (REASON_CHARACTERS + 1)}, "reason"),
        ({"reason": "a\0b"}, "reason"),
        ({"worst": -1.0}, "worst"),
        ({"worst": float("nan")}, "worst"),
        ({"worst": WORST * 2}, "worst"),
        ({"seconds": float("inf")}, "seconds"),
        ({"verdict": " " * (VERDICT_CHARACTERS + 1)}, "verdict"),
        ({"verdict": "{"}, "verdict"),
        ({"verdict": "[]"}, "verdict"),
        ({"verdict": "null"}, "verdict"),
        ({"verdict": "[" * 100_000}, "verdict"),
        ({"verdict": '{"a":' * 20_000}, "verdict"),
        ({"verdict": verdict(version=2)}, "verdict"),
        ({"verdict": verdict(case="other")}, "verdict"),
        ({"verdict": verdict(status="PASSED")}, "verdict"),
        ({"verdict": verdict(outputs=1)}, "verdict"),
        ({"verdict": verdict(outputs=[{"name": "out"}])}, "verdict"),
        ({"verdict": verdict(checks=[1e999])}, "verdict"),
        ({"verdict": FAILED.verdict.replace('"errors": ', '"errors": 1e999, "n": ')}, "verdict"),
        ({"verdict": f'{{"version": {"9" * 5000}}}'}, "verdict"),
        ({"verdict": verdict(reason="\0" * (VERDICT_CHARACTERS // 8))}, None),
        ({"verdict": verdict(reason="é" * (VERDICT_CHARACTERS // 6))}, "verdict"),
    ],
)
def test_a_result_that_is_out_of_bounds_is_refused(others: Any, member: str | None) -> None:
    result = replace(FAILED, **others)
    if member is None:
        assert checked([result])[0].verdict.isascii()
        return
    with pytest.raises(InvalidArgument) as caught:
        checked([PASSED, result])
    assert caught.value.parameter.startswith(f"{member} of ")
    assert max(len(caught.value.parameter), len(caught.value.given)) < 300


TEXTS = st.sampled_from(["", "a", "NaN", "Infinity", "\0", "é", "PASSED", "name", "shape", "first"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
MEMBERS = st.sampled_from(["version", "outputs", "checks", "refusal", "standards", "contract"])


@given(st.dictionaries(MEMBERS, JSONS))
def test_every_verdict_is_refused_or_can_be_read_again(others: Any) -> None:
    try:
        (kept,) = checked([replace(FAILED, verdict=verdict(**others))])
    except InvalidArgument:
        return
    assert json.dumps(to_json(from_json(json.loads(kept.verdict)))) == kept.verdict


def test_parts_are_short_and_together_the_whole() -> None:
    long = replace(FAILED, verdict="v" * (VERDICT_CHARACTERS - 1))
    results = [PASSED] * 1200 + [long] * 8
    parts = list(parts_of(results))
    assert [one for part in parts for one in part] == results
    assert [len(part) for part in parts] == [500, 500, 203, 3, 2]
    assert list(parts_of([])) == []
    assert MEMBERS_LIMIT > 16_159, "the largest suite can be reported"
