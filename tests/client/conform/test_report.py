"""The report as a file: its content, and its isolation from the network."""

import ast
import json
import re
import shlex
import zlib
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.conform.sample_results import (
    SAMPLE,
    failed,
    fold,
    folded,
    nothing_wrong,
    run,
)
from opserve_client.conform.record import RunRecord
from opserve_client.conform.report import content, write_report
from opserve_client.conform.report.file import report_of
from opserve_kernels.verdict.verdict import Status

PACKED = re.compile(r'<script type="application/octet-stream" (?:id|class)="\w+">([^<]*)</script>')


def unpacked(text: str) -> list[Any]:
    """The index, then the chunks."""
    return [json.loads(zlib.decompress(b64decode(found))) for found in PACKED.findall(text)]


def test_every_case_is_in_the_index_and_in_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK_CASES", 3)
    index, *chunks = unpacked(report_of(SAMPLE))
    ids = [result.case.id for result in SAMPLE.results]
    assert index["columns"]["id"] == ids
    assert index["chunk"] == 3
    assert [len(chunk) for chunk in chunks] == [3, 1]
    assert [one["case"]["id"] for chunk in chunks for one in chunk] == ids


def test_the_index_shows_the_outcome_of_each_case() -> None:
    index, _ = unpacked(report_of(SAMPLE))
    names, columns = index["names"], index["columns"]
    statuses = [names["status"][place] for place in columns["status"]]
    assert statuses == ["FAILED", "PASSED", "FAILED", "SKIPPED"]
    assert columns["errors"] == [24, 0, 0, 0]
    assert columns["worst"][0] > 1
    assert columns["worst"][1] == 0
    assert [names["kind"][place] for place in columns["kind"]] == [
        *["integer"] * 2,
        "refused",
        "integer",
    ]
    assert index["conclusion"] == "2 of 4 cases failed, 1 passed"


def test_maps_are_kept_where_something_is_wrong() -> None:
    _, (first, second, *_) = unpacked(report_of(SAMPLE))
    assert [heat["axes"] for heat in first["verdict"]["outputs"][0]["maps"]] == [
        ["n", "c"],
        ["h", "w"],
    ]
    assert second["verdict"]["outputs"][0]["maps"] == []
    assert second["verdict"]["outputs"][0]["omitted"] is False


def test_beyond_a_number_of_failures_maps_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAPPED_CASES", 1)
    _, details = unpacked(report_of(run(folded(case=fold(1)), folded(case=fold(2)))))
    outputs = [detail["verdict"]["outputs"][0] for detail in details]
    assert [(len(output["maps"]), output["omitted"]) for output in outputs] == [
        (2, False),
        (0, True),
    ]


def test_an_interrupted_run_is_marked() -> None:
    cut = replace(SAMPLE, results=SAMPLE.results[1:2])
    index, _ = unpacked(report_of(cut))
    assert index["conclusion"] == "1 of 1 cases passed, none failed; 3 did not run"


def test_a_run_without_cases_has_a_report() -> None:
    index, *chunks = unpacked(report_of(run()))
    assert index["columns"]["id"] == []
    assert chunks == []


def test_texts_of_a_target_are_in_packed_data_only() -> None:
    hostile = "</script><script>alert(1)</script>{{7*7}}$data"
    text = report_of(run(failed(Status.ERROR, hostile), target=hostile))
    assert hostile not in text
    assert "alert" not in text
    assert unpacked(text)[0]["target"] == hostile


def test_the_report_names_no_address() -> None:
    requests = r"\b(?:https?|wss?|ftp):|\bfetch\(|XMLHttpRequest|import\("
    assert re.findall(requests, report_of(SAMPLE)) == []


def test_the_same_run_writes_the_same_file(tmp_path: Path) -> None:
    write_report(SAMPLE, tmp_path / "a.html")
    write_report(SAMPLE, tmp_path / "b.html", baseline=None)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_cases_are_compared_with_a_baseline() -> None:
    now = run(folded(), folded(nothing_wrong, case=fold(4)))
    before = run(folded(nothing_wrong), *(folded(case=fold(n)) for n in (5, 6)))
    index, (first, second) = unpacked(report_of(now, baseline=before.outcomes))
    names, columns = index["names"], index["columns"]
    changes = [names["change"][place] for place in columns["change"]]
    assert changes == ["new failure", "new case"]
    assert columns["before"] == [0, None]
    assert (first["before"], second["before"]) == ({"status": "PASSED", "worst": 0}, None)
    assert index["baseline"] == "The baseline has 3 cases; 2 of them are not in this run."
    other = replace(before.outcomes, digest="sha256:another")
    assert unpacked(report_of(now, baseline=other))[0]["baseline"].endswith(" of another suite.")


def snippet_of(record: RunRecord) -> str:
    """The snippet of the first case, as the page puts it together."""
    index, (detail, *_) = unpacked(report_of(record))
    elements = {
        output["name"]: [[one["index"], one["expected"]] for one in output["greatest"]]
        for output in detail["verdict"]["outputs"]
    }
    quoted = [json.dumps(json.dumps(value)) for value in (detail["case"], elements)]
    text: str = index["snippet"]
    return text.replace('"@CASE@"', quoted[0]).replace('"@ELEMENTS@"', quoted[1])


def test_the_snippet_is_python() -> None:
    assert ast.get_docstring(ast.parse(snippet_of(SAMPLE)))


def test_the_command_names_the_run_and_is_one_command() -> None:
    hostile = "cmd:./x {in} '; rm -rf *\n"
    header = replace(SAMPLE.header, suite="smoke", target=hostile)
    index, _ = unpacked(report_of(replace(SAMPLE, header=header)))
    options = ["--suite", "smoke", "--seed", "7", "--target", hostile, "--case"]
    assert shlex.split(index["command"]) == ["opserve", "conform", "repro", *options]
    assert "--suite" not in unpacked(report_of(SAMPLE))[0]["command"]
