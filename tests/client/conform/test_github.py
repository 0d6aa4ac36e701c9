"""A run in a step of a GitHub workflow, within its limits; a target's text is text."""

from pathlib import Path

import pytest

from client.conform.sample_results import SAMPLE, failed, fold, folded, nothing_wrong, run
from opserve_client.conform.known import Known, expectations
from opserve_client.conform.summary import Summary
from opserve_client.conform.writers import github
from opserve_client.conform.writers.github import (
    ANNOTATIONS_LIMIT,
    SUMMARY_VARIABLE,
    annotations,
    step_summary,
    write_step,
)
from opserve_kernels.conformance.comparison import compare
from opserve_kernels.verdict.verdict import Status

HOSTILE = "![x](http://a) | `code` <img src=x>\n[b]: c"


def summary_of(*reasons: str) -> Summary:
    results = [failed(Status.ERROR, reason, channels=n + 1) for n, reason in enumerate(reasons)]
    return Summary(record=run(*results))


def test_no_text_becomes_a_link_an_image_or_markup() -> None:
    summary = step_summary(summary_of(HOSTILE)).splitlines()[-1]
    assert summary.endswith(r"| \!\[x\](http://a) \| \`code\` &lt;img src=x> \[b\]: c |")


def test_no_text_begins_another_command() -> None:
    (annotation,) = annotations(summary_of("100 %\r\n::set-output name=a::b"))
    case = fold(1).id
    assert annotation == f"::error title=ERROR {case}::100 %25%0D%0A::set-output name=a::b"


def test_a_title_ends_where_it_must() -> None:
    wrong, right = folded(), folded(nothing_wrong, case=fold(4))
    known = [Known(pattern=f"{right.case.id[:-1]}[0-9a-f]", reason="a: b, c")]
    record = run(wrong, right)
    lines = list(annotations(Summary(record=record, expectations=expectations(record, known))))
    assert [line.partition("::")[2].partition("::")[0] for line in lines] == [
        f"error title=FAILED {wrong.case.id}",
        "warning title=known failure passes",
    ]


def test_annotations_are_limited_to_the_shown_ones() -> None:
    lines = list(annotations(summary_of(*map(str, range(ANNOTATIONS_LIMIT + 5)))))
    assert len(lines) == ANNOTATIONS_LIMIT


def test_the_summary_counts_and_compares() -> None:
    before = run(folded(nothing_wrong), *SAMPLE.results[1:])
    comparison = compare(before.outcomes, SAMPLE.outcomes)
    text = step_summary(Summary(record=SAMPLE, comparison=comparison))
    assert text.startswith("### my\\_kernels:backward on mine, seed 7\n")
    assert "| FAILED | 2 |\n" in text
    assert "new failures: 1\n" in text
    assert text.count(f"| {SAMPLE.results[0].case.id} | out: ") == 1


def test_a_summary_that_is_too_long_ends_with_a_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = step_summary(summary_of("one", "two", "three"))
    monkeypatch.setattr(github, "SUMMARY_LIMIT_BYTES", len(whole) - 1)
    cut = step_summary(summary_of("one", "two", "three"))
    assert cut == whole[: whole.rindex("\n", 0, -1) + 1]


def test_the_summary_is_added_where_the_step_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "step.md"
    path.write_text("before\n")
    monkeypatch.setenv(SUMMARY_VARIABLE, str(path))
    write_step(Summary(record=SAMPLE))
    assert path.read_text() == "before\n" + step_summary(Summary(record=SAMPLE))
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.delenv(SUMMARY_VARIABLE)
    write_step(Summary(record=SAMPLE))
    assert path.read_text().count("###") == 1
