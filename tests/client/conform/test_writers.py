"""A run as GitLab's metrics and as a badge."""

import json
import re

from client.conform.sample_results import SAMPLE, fold, folded, nothing_wrong, run
from opserve_client.conform.writers.badge import badge
from opserve_client.conform.writers.metrics import metrics

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


def test_metrics_tell_the_worst_used_fraction_of_what_passed() -> None:
    near = folded(nothing_wrong, shift=6e-7)
    text = metrics(run(near, folded(nothing_wrong, case=fold(2)), folded(case=fold(4))))
    assert 0.1 < near.worst < 1
    assert f'worst_used{{operator="im2col_backward"}} {near.worst:.4g}\n' in text


def test_the_badge_says_how_many_failed_or_passed() -> None:
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
