"""Rows on the command line: three forms, none of which a terminal or a spreadsheet obeys."""

import csv
import io
import json

import pytest

from opserve_client.cli_rows import Cell, Row, moment, printable, show

ROWS: list[Row] = [
    {"name": "lab", "calls": 12, "share": 33.333333333, "on": True, "end": None},
    {"name": "=1+1", "calls": 0, "share": 2.0, "on": False, "end": "a\x1b[2J\x9b\u202e\x7f\nb"},
]
COLUMNS = ("name", "calls", "share", "on", "end")
SPELLED = "a\\x1b[2J\\x9b\\u202e\\x7f\\nb"


def written(capture: pytest.CaptureFixture[str], **form: bool) -> str:
    show(ROWS, columns=COLUMNS, **form)
    return capture.readouterr().out


def test_a_table_has_aligned_columns_and_spells_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [line.rstrip() for line in written(capsys).splitlines()] == [
        "name  calls    share  on   end",
        "lab      12  33.3333  yes  -",
        f"=1+1      0        2  no   {SPELLED}",
    ]


def test_csv_has_no_formula_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.reader(io.StringIO(written(capsys, as_csv=True))))
    assert rows == [
        list(COLUMNS),
        ["lab", "12", "33.333333333", "True", ""],
        ["'=1+1", "0", "2.0", "False", SPELLED],
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r="])
def test_no_cell_of_csv_begins_as_a_formula(start: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells: list[Cell] = [f"{start}cmd|' /C calc'!A0", -1.5]
    show([{"a": cell} for cell in cells], columns=["a"], as_csv=True)
    _, row, number = csv.reader(io.StringIO(capsys.readouterr().out))
    assert row[0][0] not in "=+-@\t\r"
    assert number == ["-1.5"], "numbers are no text"


def test_json_keeps_values_and_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(capsys, as_json=True)
    assert json.loads(text) == [dict(row) for row in ROWS]
    assert all(" " <= character <= "~" or character == "\n" for character in text)


def test_terminal_output_is_unchanged() -> None:
    assert printable("Größe 5 [bold]") == "Größe 5 [bold]"
    assert printable("a\tb\u200f") == "a\\tb\\u200f"


def test_times_are_in_utc() -> None:
    assert moment(0.0) == "1970-01-01T00:00:00Z"
    assert moment(None) is None
