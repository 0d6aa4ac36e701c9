"""Two runs beside each other: each case by its outcome then and now, and laws of the whole."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opserve_kernels.conformance.comparison import (
    DRIFT,
    Change,
    Comparison,
    Outcome,
    Outcomes,
    change,
    compare,
)
from opserve_kernels.verdict.verdict import GOOD, Status

RIGHT = Outcome(status=Status.PASSED, worst=0.0)
NEAR = Outcome(status=Status.PASSED, worst=0.9)
WRONG = Outcome(status=Status.FAILED, worst=1e9)
ODD = Outcome(status=Status.FAILED, worst=math.nan)
UNSTABLE = Outcome(status=Status.NONDETERMINISTIC, worst=0.1)
SKIPPED = Outcome(status=Status.SKIPPED, worst=0.0)
UNSAID = Outcome(status=Status.MISTRUSTED, worst=math.inf)
RUNS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Outcome, status=st.sampled_from(Status), worst=st.floats(0, 2)),
)


def outcomes(by_case: Mapping[str, Outcome], digest: str = "sha256:00") -> Outcomes:
    return Outcomes(digest=digest, by_case=by_case)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, RIGHT, Change.NEW_CASE),
        (None, WRONG, Change.NEW_CASE),
        (RIGHT, WRONG, Change.NEW_FAILURE),
        (SKIPPED, WRONG, Change.NEW_FAILURE),
        (UNSAID, UNSTABLE, Change.NEW_FAILURE),
        (WRONG, WRONG, Change.STILL_FAILING),
        (WRONG, UNSTABLE, Change.STILL_FAILING),
        (WRONG, RIGHT, Change.FIXED),
        (ODD, NEAR, Change.FIXED),
        (RIGHT, SKIPPED, Change.NEWLY_SKIPPED),
        (WRONG, UNSAID, Change.NEWLY_SKIPPED),
        (SKIPPED, UNSAID, Change.SAME),
        (SKIPPED, RIGHT, Change.SAME),
        (SKIPPED, NEAR, Change.SAME),
        (UNSAID, NEAR, Change.SAME),
        (RIGHT, NEAR, Change.DRIFT),
        (RIGHT, Outcome(status=Status.PASSED, worst=DRIFT), Change.SAME),
        (NEAR, RIGHT, Change.SAME),
        (RIGHT, RIGHT, Change.SAME),
    ],
)
def test_a_case_is_compared_with_its_earlier_result(
    before: Outcome | None, now: Outcome, expected: Change
) -> None:
    assert change(before, now) is expected


def test_new_failures_fixes_skips_additions_and_removals_are_reported() -> None:
    before = {"a": RIGHT, "b": WRONG, "c": RIGHT, "d": RIGHT, "e": WRONG}
    now = {"c": SKIPPED, "b": RIGHT, "a": WRONG, "new": WRONG, "right": RIGHT, "e": WRONG}
    found = compare(outcomes(before), outcomes(now, "sha256:01"))
    assert found == Comparison(
        same_suite=False,
        new_failures=("a", "new"),
        fixed=("b",),
        newly_skipped=("c",),
        missing=1,
    )
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [("fma8", "fma8", True), ("fma8", "fma16", False), ("", "fma16", True), ("fma8", "", True)],
)
def test_runs_of_other_kernel_variants_are_not_compared_bit_by_bit(
    before: str, now: str, *, same: bool
) -> None:
    older, newer = (
        replace(outcomes({"a": RIGHT}), kernel_variant=variant) for variant in (before, now)
    )
    assert compare(older, newer) == Comparison(same_variant=same)


def test_the_farthest_drift_is_listed_first_and_fails_nothing() -> None:
    now = {"a": Outcome(status=Status.PASSED, worst=0.5), "b": NEAR}
    found = compare(outcomes(dict.fromkeys("ab", RIGHT)), outcomes(now))
    assert [(drift.case, drift.now) for drift in found.drifts] == [("b", 0.9), ("a", 0.5)]
    assert found.exit_code == 0
    assert found.to_json()["drifts"][0] == {"case": "b", "before": 0.0, "now": 0.9}


@given(RUNS)
def test_a_run_does_not_differ_from_itself(run: Mapping[str, Outcome]) -> None:
    assert compare(outcomes(run), outcomes(run)) == Comparison()


@given(RUNS, RUNS)
def test_earlier_failures_are_kept_fixed_skipped_or_removed(
    before: Mapping[str, Outcome], now: Mapping[str, Outcome]
) -> None:
    found = compare(outcomes(before), outcomes(now))
    failed = {case for case, outcome in before.items() if outcome.status not in GOOD}
    fails = {case for case, outcome in now.items() if outcome.status not in GOOD}
    assert set(found.new_failures) == fails - failed
    assert (failed & now.keys()) - fails - set(found.newly_skipped) == set(found.fixed)
    named = (*found.new_failures, *found.fixed, *found.newly_skipped)
    named = (*named, *(drift.case for drift in found.drifts))
    assert len(set(named)) == len(named)
    assert found.missing == len(before.keys() - now.keys())
    assert found.exit_code == int(bool(found.new_failures or found.newly_skipped))


@given(RUNS, RUNS)
def test_a_fix_is_a_failure_in_the_opposite_comparison(
    before: Mapping[str, Outcome], now: Mapping[str, Outcome]
) -> None:
    there, back = (
        compare(outcomes(one), outcomes(other)) for one, other in ((before, now), (now, before))
    )
    passed = {case for case, outcome in before.items() if outcome.status is Status.PASSED}
    assert set(there.new_failures) & passed == set(back.fixed)
    assert not {drift.case for drift in there.drifts} & {drift.case for drift in back.drifts}
