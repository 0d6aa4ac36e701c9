"""Traces that Perfetto opens: what is in them, and that slices of a thread do not overlap."""

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from opserve.v1 import memory_service_pb2 as memory_pb2
from opserve.v1 import session_service_pb2 as session_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve_client.chrome_trace import chrome_trace

BEGAN_S = 1e6 + 0.1
"""A monotonic clock counts from the start of the machine, some days ago."""


def entry(number: int, **changes: Any) -> stream_pb2.StreamEntry:
    given: dict[str, Any] = {
        "sequence": number,
        "number": number,
        "kind": stream_pb2.WORK_KIND_EXECUTE,
        "handle": 7,
        "operator": "im2col_backward",
        "queued_s": BEGAN_S,
        "started_s": BEGAN_S + number,
        "ended_s": BEGAN_S + number + 0.5,
        "outcome": stream_pb2.OUTCOME_DONE,
    }
    return stream_pb2.StreamEntry(**given | changes)


def copy(started_s: float, ended_s: float) -> memory_pb2.CopyEntry:
    kind = memory_pb2.COPY_KIND_WRITE
    return memory_pb2.CopyEntry(
        kind=kind, buffer=3, size_bytes=64, started_s=started_s, ended_s=ended_s
    )


def events(
    *entries: stream_pb2.StreamEntry, copies: tuple[memory_pb2.CopyEntry, ...] = ()
) -> list[dict[str, Any]]:
    """The events of a trace of one stream, as a viewer reads them."""
    stream = session_pb2.StreamTimeline(stream=4, entries=entries)
    timeline = session_pb2.GetTimelineResponse(
        streams=[stream], copies=copies, kernel_variant="fma16"
    )
    trace = json.loads(json.dumps(chrome_trace(timeline, process="session on ascend910b-0")))
    assert trace["displayTimeUnit"] == "ms"
    assert trace["otherData"] == {"kernel_variant": "fma16"}
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found


def assert_well_formed(found: list[dict[str, Any]]) -> None:
    """The rules of Chrome's trace format for the phases that are used."""
    free_us: dict[int, float] = defaultdict(float)
    names = {event["tid"] for event in found if event["name"] == "thread_name"}
    for event in sorted(found, key=lambda event: event.get("ts", 0.0)):
        assert event["ph"] in {"M", "X", "i"}
        assert isinstance(event["name"], str)
        assert event["name"]
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "M":
            assert event["args"]
            continue
        assert event["ts"] >= 0
        assert event["tid"] in names
        if event["ph"] == "i":
            assert event["s"] == "t"
            continue
        assert event["dur"] >= 0
        assert event["ts"] >= free_us[event["tid"]], "slices of a thread overlap"
        free_us[event["tid"]] = round(event["ts"] + event["dur"], 3)


def test_a_call_is_a_slice_with_its_queue_time_and_its_time_without_pauses() -> None:
    found = events(entry(1, kernel_s=0.25))
    assert_well_formed(found)
    (kernel,) = [event for event in found if event["ph"] == "X"]
    assert kernel == {
        "ph": "X",
        "pid": 2**20,
        "tid": 1,
        "name": "im2col_backward",
        "cat": "kernel",
        "ts": 1e6,
        "dur": 5e5,
        "args": {"number": 1, "handle": 7, "queue_ms": 1000.0, "kernel_ms": 250.0},
    }


def test_records_and_dropped_work_are_instants_and_waits_are_slices() -> None:
    aborted = {"outcome": stream_pb2.OUTCOME_DROPPED, "reason": "ACL_ERROR_RT_STREAM_ABORT"}
    found = events(
        entry(1, kind=stream_pb2.WORK_KIND_RECORD, operator=""),
        entry(2, kind=stream_pb2.WORK_KIND_WAIT, operator=""),
        entry(3, started_s=None, **aborted),
    )
    assert_well_formed(found)
    kinds = [(event["ph"], event["name"]) for event in found if event["ph"] != "M"]
    assert kinds == [("i", "record event 7"), ("X", "wait event 7"), ("i", "im2col_backward")]
    assert found[-1]["args"] == {
        "number": 3,
        "handle": 7,
        "outcome": "DROPPED",
        "reason": "ACL_ERROR_RT_STREAM_ABORT",
    }


def test_a_stopped_call_that_lay_behind_another_begins_behind_it() -> None:
    stopped = entry(2, started_s=BEGAN_S + 1.1, outcome=stream_pb2.OUTCOME_ABORTED)
    found = events(entry(1), stopped)
    assert_well_formed(found)
    assert found[-1]["ts"] == 1.5e6


def test_concurrent_copies_are_drawn_in_separate_rows() -> None:
    found = events(
        copies=(copy(BEGAN_S, BEGAN_S + 2), copy(BEGAN_S + 1, BEGAN_S + 3), copy(BEGAN_S + 2, 2e6))
    )
    assert_well_formed(found)
    threads = [event["tid"] for event in found if event["ph"] == "X"]
    assert len(threads) == 3
    assert len(set(threads)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_slices_never_overlap(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # a seed that a failure names
    time_s, entries = BEGAN_S, list[stream_pb2.StreamEntry]()
    for number in range(1, 100):
        end_s = time_s + chance.expovariate(1e4)
        entries.append(entry(number, started_s=chance.uniform(BEGAN_S, end_s), ended_s=end_s))
        time_s = end_s
    copies: list[memory_pb2.CopyEntry] = []
    for _ in range(100):
        start_s = BEGAN_S + chance.random()
        copies.append(copy(start_s, start_s + chance.expovariate(10)))
    assert_well_formed(events(*entries, copies=tuple(copies)))


def test_a_session_that_did_nothing_has_a_trace() -> None:
    assert_well_formed(events())
