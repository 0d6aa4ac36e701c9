"""Rows on the command line: three forms, none of which a terminal or a spreadsheet obeys."""

import csv
import io
import json

import pytest

from opserve.v1.admin_service_pb2 import GetActivityResponse, TenantActivity
from opserve.v1.session_service_pb2 import Device
from opserve.v1.usage_service_pb2 import ResourceUse
from opserve_client.cli_rows import Cell, Row, moment, printable, show
from opserve_client.cli_top import device_rows, tenant_rows

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


def activity(at: float, **tenants: tuple[int, float]) -> GetActivityResponse:
    """A look at tenants by their calls and seconds of device time."""
    return GetActivityResponse(
        at=at,
        devices=[Device(name="ascend910b-0", memory_bytes=2**30, free_memory_bytes=2**29)],
        tenants=[
            TenantActivity(
                tenant=name,
                weight=1,
                calls=calls,
                uses=[
                    ResourceUse(resource="device_seconds_per_day", use=seconds),
                    ResourceUse(resource="queued_entries", use=5),
                    ResourceUse(resource="device_memory_bytes", use=3 * 2**20),
                ],
            )
            for name, (calls, seconds) in tenants.items()
        ],
    )


def test_a_first_look_shows_shares_of_today_and_no_rate() -> None:
    lab, mill = tenant_rows(activity(10.0, lab=(4, 3.0), mill=(1, 1.0)), None)
    assert (lab["share_percent"], mill["share_percent"]) == (75.0, 25.0)
    assert (lab["queued"], lab["memory_mib"], lab["calls"], lab["calls_per_s"]) == (5, 3, 4, None)
    (device,) = device_rows(activity(10.0))
    assert (device["device"], device["free_mib"], device["memory_mib"]) == (
        "ascend910b-0",
        512,
        1024,
    )


def test_a_later_look_shows_what_happened_since() -> None:
    before = activity(10.0, lab=(4, 3.0), mill=(1, 1.0))
    now = activity(12.0, lab=(4, 3.0), mill=(11, 1.5), new=(2, 0.0))
    lab, mill, new = tenant_rows(now, before)
    assert [row["share_percent"] for row in (lab, mill, new)] == [0.0, 100.0, 0.0]
    assert [row["calls_per_s"] for row in (lab, mill, new)] == [0.0, 5.0, None]


def test_a_service_that_started_again_has_no_negative_rates() -> None:
    (lab,) = tenant_rows(activity(12.0, lab=(1, 0.0)), activity(10.0, lab=(4, 3.0)))
    assert (lab["share_percent"], lab["calls_per_s"]) == (0.0, 0.0)
