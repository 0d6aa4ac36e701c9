"""A run as GitLab's metrics, as a badge and as JUnit's XML."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from client.conform.sample_results import SAMPLE, failed, fold, folded, nothing_wrong, run
from opserve_client.conform.known import Known, expectations
from opserve_client.conform.record import RunRecord
from opserve_client.conform.summary import Summary
from opserve_client.conform.writers.badge import badge
from opserve_client.conform.writers.junit import write_junit
from opserve_client.conform.writers.metrics import metrics
from opserve_kernels.verdict.verdict import Status

LINE = re.compile(r'([a-z_]+)\{operator="([a-z0-9_]+)"(?:,status="([A-Z_]+)")?\} ([-+.e0-9]+)')


def test_metrics_count_cases_by_operator_and_status() -> None:
    *lines, end, rest = metrics(SAMPLE).split("\n")
    assert (end, rest) == ("# EOF", "")
    samples = [LINE.fullmatch(line) for line in lines if not line.startswith("# ")]
    assert None not in samples
    found = [sample.groups() for sample in samples if sample]
    counts = {(operator, status): value for _, operator, status, value in found if status}
    assert {key: value for key, value in counts.items() if value != "0"} == {
        ("im2col_backward", "FAILED"): "1",
        ("im2col_backward", "PASSED"): "1",
        ("im2col_backward", "SKIPPED"): "1",
        ("convolution_backward", "FAILED"): "1",
    }


def test_metrics_report_the_worst_used_fraction_of_passed_results() -> None:
    near = folded(nothing_wrong, shift=6e-7)
    text = metrics(run(near, folded(nothing_wrong, case=fold(2)), folded(case=fold(4))))
    assert 0.1 < near.verdict.worst < 1
    assert f'worst_used{{operator="im2col_backward"}} {near.verdict.worst:.4g}\n' in text


def test_the_badge_shows_how_many_failed_or_passed() -> None:
    passed = folded(nothing_wrong)
    assert json.loads(badge(SAMPLE)) == {
        "schemaVersion": 1,
        "label": "opserve mine",
        "message": "2 failed",
        "color": "red",
    }
    assert json.loads(badge(run(passed)))["message"] == "1 passed"
    assert json.loads(badge(run(passed)))["color"] == "brightgreen"
    assert json.loads(badge(run()))["message"] == "no cases"


def junit(folder: Path, record: RunRecord, *known: Known) -> ET.Element:
    path = folder / "junit.xml"
    write_junit(Summary(record=record, expectations=expectations(record, known)), path)
    return ET.parse(path).getroot()  # noqa: S314  our own file


def test_junit_reports_failures_errors_and_skipped_cases(tmp_path: Path) -> None:
    record = run(*SAMPLE.results, failed(Status.ERROR, "it crashed", channels=9))
    suite = junit(tmp_path, record)
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert (suite.get("name"), counts) == ("opserve.mine", ["5", "2", "1", "1"])
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [["failure"], [], ["failure"], ["skipped"], ["error"]]
    first = SAMPLE.results[0]
    failure = suite[0][0]
    assert (failure.get("type"), failure.get("message")) == ("FAILED", first.verdict.reason)
    about = [suite[0].get(name) for name in ("classname", "name", "time")]
    assert about == ["im2col_backward.ascend910b", first.case.id, "0.250000"]


def test_junit_omits_known_failures_and_reports_those_that_pass(tmp_path: Path) -> None:
    wrong, right = SAMPLE.results[:2]
    known = (
        Known(pattern=wrong.case.id, reason="not yet"),
        Known(pattern=right.case.id, reason="mended"),
    )
    suite = junit(tmp_path, SAMPLE, *known)
    assert [suite.get(name) for name in ("failures", "skipped")] == ["1", "2"]
    message = suite[0][0].get("message") or ""
    assert message.startswith(f"known failure: {wrong.case.id}  # not yet: out: ")
    assert suite[1][0].tag == "system-out"
    assert suite[1][0].text == f"known failure that passes: {right.case.id}  # mended"


def test_characters_that_xml_forbids_are_left_out_of_junit(tmp_path: Path) -> None:
    hostile = "a\x00\x1b[31m</testsuite>\ud800\uffff<b>"
    suite = junit(tmp_path, run(failed(Status.ERROR, hostile)))
    assert suite[0][0].text == "a[31m</testsuite><b>"
