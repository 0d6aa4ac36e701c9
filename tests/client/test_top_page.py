"""The page of `opserve top`, from states of a watch."""

import json
from typing import Any

import pytest
from rich.console import Console

from opserve.v1.admin_service_pb2 import GetActivityResponse, TenantActivity
from opserve.v1.usage_service_pb2 import ResourceUse
from opserve_client.errors import OpserveError
from opserve_client.top_page import bar, device_rows, page, sparkline, tenant_rows
from opserve_client.watched import Series, WatchedState, state_after

DEVICE = {
    "name": "ascend910b-0",
    "profile": "ascend910b",
    "ready": True,
    "since": 0,
    "restarts": 1,
    "sessions": 3,
    "your_sessions": 1,
    "other_sessions": 2,
    "your_requests": 1,
    "other_requests": 3,
    "queued_entries": 7,
    "busy_share": 0.5,
    "calls_per_s": 12.5,
    "memory_bytes": 2**32,
    "free_memory_bytes": 2**31,
    "exclusive": False,
}
STATE = {"version": "1.2", "started_at": 0, "ready": True, "drains": False, "scopes": ["operate"]}
USES = [
    {"resource": "sessions", "use": 1, "limit": 4, "refusals": 0},
    {"resource": "executors", "use": 9, "limit": None, "refusals": 0},
]
SERIES = Series(
    step_s=1.0,
    end="",
    points={
        "device_busy_share": {"ascend910b-0": [0.0, 0.25, 1.0]},
        "device_calls_per_s": {"ascend910b-0": [0.0, 4.0, 8.0]},
    },
)
HOSTILE = "\x1b[2J<b>\u202e"
WAITING = {
    "id": "5b2c90aa",
    "profile": "ascend910b",
    "position": 2,
    "waited_s": 5.0,
    "left_s": 60.0,
    "tenant": "lab",
    "waits_for": HOSTILE,
}


def state(**members: dict[str, Any]) -> WatchedState:
    service = {"state": STATE, "usage": {"tenant": "lab", "uses": USES}}
    change = {"devices": {"ascend910b-0": DEVICE}, "service": service} | members
    return state_after(WatchedState(), json.dumps(change))


def drawn(of: WatchedState, *, width: int = 120, **terms: Any) -> str:
    console = Console(width=width, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(page(of, SERIES, width=width, **terms))
    return capture.get()


def test_an_item_replaces_that_of_its_name_and_null_removes_it() -> None:
    before = state(waiting={"a": {"id": "a"}, "b": {"id": "b"}})
    after = state_after(before, '{"waiting":{"a":null,"c":{"id":"c"}},"devices":{}}')
    assert set(after.waiting) == {"b", "c"}
    assert (after.devices, after.service) == (before.devices, before.service)
    assert set(before.waiting) == {"a", "b"}


@pytest.mark.parametrize("change", ["", "[]", "null", '{"devices":7}', '{"devices":[1]}', "{"])
def test_a_change_that_is_none_is_an_error_of_the_service(change: str) -> None:
    with pytest.raises(OpserveError, match="The change of a watch is not readable"):
        state_after(WatchedState(), change)


def test_a_device_has_its_state_its_sessions_and_its_activity() -> None:
    title, _, first, second = drawn(state()).splitlines()[:4]
    assert title.startswith("opserve 1.2  1 of 1 devices ready  up ")
    assert first.startswith("ascend910b-0  ready ")
    assert "1 restart  sessions yours: 1, others: 2  7 queued  4 waiting" in first
    assert "busy 100 %" in second
    assert "▁▃█  calls     8/s" in second
    assert "▁▅█  memory █████░░░░░ 2.0 of 4.0 GiB" in second


def test_a_device_that_is_not_ready_says_so() -> None:
    down = drawn(state(devices={"ascend910b-0": DEVICE | {"ready": False, "sessions": 0}}))
    assert "0 of 1 devices ready" in down
    assert "ascend910b-0  NOT READY " in down


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_of_devices_fit_the_terminal(width: int) -> None:
    lines = drawn(state(), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("  busy") and line.endswith("GiB") for line in lines) == 1


def test_a_request_counts_on_from_the_state_and_its_texts_are_escaped() -> None:
    rows = drawn(state(waiting={"5b2c90aa": WAITING}), passed_s=3.0)
    (row,) = (line.split() for line in rows.splitlines() if "\\x1b[2J" in line)
    assert row == ["2", "ascend910b", "8", "57", "lab", "\\x1b[2J<b>\\u202e"]


def test_a_tenant_sees_its_own_use_beside_its_limits() -> None:
    lines = [line.split() for line in drawn(state()).splitlines()]
    assert ["sessions", "1", "4", "██░░░░░░░░"] in lines
    assert ["executors", "9", "-", "-"] in lines


def test_an_administrator_sees_the_busiest_tenant_first() -> None:
    shown = drawn(state(), tenants=activity(10.0, lab=(4, 1.0), mill=(1, 3.0)))
    assert shown.index("mill ") < shown.index("lab ")
    assert "executors" not in shown


def test_rows_for_programs_are_numbers() -> None:
    (row,) = device_rows(state())
    assert row == {
        "device": "ascend910b-0",
        "profile": "ascend910b",
        "ready": True,
        "sessions": 3,
        "free_mib": 2048,
        "memory_mib": 4096,
        "busy_percent": 50.0,
        "calls_per_s": 12.5,
        "queued": 7,
        "restarts": 1,
    }


def test_sparklines_end_with_the_newest_value() -> None:
    assert sparkline([9, 0, 1, 7, 8], 4) == "▁▂██"
    assert sparkline([0.5, 1.5], 4, top=1.0) == "  ▅█"
    assert sparkline([0, 0], 2) == "▁▁"
    assert sparkline([], 2) == "  "


def test_bars_are_within_their_width() -> None:
    assert [bar(share, 4) for share in (-1, 0, 0.5, 1, 9)] == [
        "░░░░",
        "░░░░",
        "██░░",
        "████",
        "████",
    ]


def activity(at: float, **tenants: tuple[int, float]) -> GetActivityResponse:
    """A look at tenants by their calls and seconds of device time."""
    return GetActivityResponse(
        at=at,
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


def test_a_later_look_shows_what_happened_since() -> None:
    before = activity(10.0, lab=(4, 3.0), mill=(1, 1.0))
    now = activity(12.0, lab=(4, 3.0), mill=(11, 1.5), new=(2, 0.0))
    lab, mill, new = tenant_rows(now, before)
    assert [row["share_percent"] for row in (lab, mill, new)] == [0.0, 100.0, 0.0]
    assert [row["calls_per_s"] for row in (lab, mill, new)] == [0.0, 5.0, None]


def test_a_service_that_started_again_has_no_negative_rates() -> None:
    (lab,) = tenant_rows(activity(12.0, lab=(1, 0.0)), activity(10.0, lab=(4, 3.0)))
    assert (lab["share_percent"], lab["calls_per_s"]) == (0.0, 0.0)
