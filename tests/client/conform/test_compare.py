"""Two runs beside each other."""

from client.conform.sample_results import failed, fold, folded, nothing_wrong, run
from opserve_client.conform.compare import Comparison, compare
from opserve_kernels.verdict.verdict import Status

ONE, TWO, THREE = (fold(channels) for channels in (1, 2, 3))
NEAR = 6e-7  # of 1: more than half of the tolerance of 9 terms
NOTHING = Comparison(new_failures=(), fixed=(), newly_skipped=(), drifts=(), missing=0)


def test_equal_runs_do_not_differ() -> None:
    record = run(folded(case=ONE), folded(nothing_wrong, case=TWO))
    assert compare(record, record) == NOTHING


def test_what_broke_and_what_was_mended_is_told() -> None:
    before = run(folded(case=ONE), folded(nothing_wrong, case=TWO))
    now = run(folded(nothing_wrong, case=ONE), folded(case=TWO))
    found = compare(before, now)
    assert (found.new_failures, found.fixed) == ((TWO.id,), (ONE.id,))
    assert (found.exit_code, compare(before, run(now.results[0])).exit_code) == (1, 0)


def test_a_new_case_is_told_if_it_fails_and_one_that_is_gone_is_counted() -> None:
    before = run(folded(nothing_wrong, case=ONE))
    now = run(folded(case=TWO), folded(nothing_wrong, case=THREE))
    found = compare(before, now)
    assert (found.new_failures, found.missing, found.exit_code) == ((TWO.id,), 1, 1)


def test_a_case_that_is_left_out_now_is_told_though_it_failed_before() -> None:
    skipped = failed(Status.UNIMPLEMENTED, "no more", channels=2)
    for before in (folded(case=TWO), folded(nothing_wrong, case=TWO)):
        found = compare(run(before), run(skipped))
        assert (found.newly_skipped, found.fixed, found.exit_code) == ((TWO.id,), (), 1)
    assert compare(run(skipped), run(skipped)) == NOTHING


def test_what_comes_nearer_to_its_tolerance_is_told_the_farthest_first_and_fails_nothing() -> None:
    before = run(*(folded(nothing_wrong, case=case) for case in (ONE, TWO, THREE)))
    now = run(
        folded(nothing_wrong, case=ONE, shift=NEAR / 1.5),
        folded(nothing_wrong, case=TWO, shift=NEAR),
        folded(nothing_wrong, case=THREE, shift=NEAR / 8),
    )
    found = compare(before, now)
    assert [drift.case for drift in found.drifts] == [TWO.id, ONE.id]
    assert found.drifts[0].before == 0
    assert found.drifts[0].now == now.results[1].worst
    assert found.exit_code == 0
    assert found.to_json()["drifts"][0]["case"] == TWO.id
