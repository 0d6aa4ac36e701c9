"""The record of a run as a file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opserve_client.conform.record import (
    Header,
    RecordError,
    Result,
    RunRecord,
    read_record,
    result_line,
    write_record,
)
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.verdict import Status

HEADER = Header(
    tool="1.2",
    suite="mine",
    digest="sha256:00",
    cases=2,
    chosen="sha256:01",
    seed=7,
    target="a:b",
    contracts={"im2col_backward": "2"},
)


def result(size: int, wrong: int) -> Result:
    case = FoldCall(out=(1, 1, size, size), kernel=(1, 1)).case()
    expected = np.ones((1, 1, size, size))
    given = expected.astype(np.float32)
    given.reshape(-1)[:wrong] = np.nan
    output = judge("out", Pair(given=given, expected=expected), Exact(), axes=("n", "c", "h", "w"))
    verdict = conclude(case.id, contract="2", outputs=[output])
    return Result(case=case, verdict=verdict, seconds=0.5)


RECORD = RunRecord(header=HEADER, results=(result(2, 0), result(3, 2)))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path / "run")
    again = read_record(tmp_path / "run")
    assert again.header == HEADER
    assert [one.case for one in again.results] == [one.case for one in RECORD.results]
    assert repr(again.results[1].verdict) == repr(RECORD.results[1].verdict)
    assert again.tally.counts == {Status.PASSED: 1, Status.FAILED: 1}
    assert [one.case for one in again.failures] == [RECORD.results[1].case]


def test_a_record_of_the_first_release_is_read() -> None:
    again = read_record(Path(__file__).with_name("record-0.1.0.jsonl"))
    assert again.header.tool == "0.1.0"
    assert again.tally.counts == {Status.PASSED: 1, Status.FAILED: 1}
    assert [one.case.id for one in again.results] == [one.case.id for one in RECORD.results]
    (output,) = again.failures[0].verdict.outputs
    assert [element.index for element in output.first] == [(0, 0, 0, 0), (0, 0, 0, 1)]
    assert len(output.maps) == 2


def test_maps_are_kept_of_wrong_elements_only(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path / "run")
    right, wrong = read_record(tmp_path / "run").results
    assert not right.verdict.outputs[0].maps
    assert wrong.verdict.outputs[0].maps == RECORD.results[1].verdict.outputs[0].maps


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path / "run")
    text = (tmp_path / "run").read_text()
    (tmp_path / "run").write_text(text + result_line(RECORD.results[0])[:-9])
    assert len(read_record(tmp_path / "run").results) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{}\n", '{"record":2}\n', '{"record":1,"colour":1}\n', "[]\n", "no\n"],
)
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(RecordError, match="run"):
        read_record(tmp_path / "run")


def test_a_line_that_is_no_result_is_refused_by_its_number(tmp_path: Path) -> None:
    write_record(replace(RECORD, results=()), tmp_path / "run")
    with (tmp_path / "run").open("a") as file:
        file.write('{"case":{}}\n')
    with pytest.raises(RecordError, match="line 2"):
        read_record(tmp_path / "run")
