"""The runs that the report is measured and drawn with; no timing."""

import pytest

from benchmarks import conformance_report
from benchmarks.conformance_report import large_run
from benchmarks.sample_runs import sample_run


def test_a_large_run_has_different_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance_report, "JUDGED", 3)
    monkeypatch.setattr(conformance_report, "CASES", 12)
    run = large_run()
    assert run.header.cases == len(run.results) == 12
    assert len({result.case.id for result in run.results}) == 12
    assert all(result.verdict.case == result.case.id for result in run.results)


def test_a_sample_fails_as_often_as_configured() -> None:
    assert sample_run(40, seed=1, failing=0).failures == ()
    assert len(sample_run(40, seed=1, failing=1).failures) > 20


def test_a_seed_reproduces_its_sample() -> None:
    one, other = sample_run(20, seed=3), sample_run(20, seed=3)
    assert repr(one) == repr(other)
