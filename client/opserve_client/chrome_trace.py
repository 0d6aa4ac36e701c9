"""Conversion of a session's timeline to Chrome's trace format, for Perfetto.

The session is one process with a thread for each stream, and as many threads for copies as ran at
the same time. Calls, waits and copies are slices; records and dropped work are instants.
"""

from collections.abc import Iterable, Iterator, Sequence

from opserve.v1.memory_service_pb2 import CopyEntry, CopyKind
from opserve.v1.session_service_pb2 import GetTimelineResponse
from opserve.v1.stream_service_pb2 import (
    OUTCOME_DONE,
    WORK_KIND_EXECUTE,
    WORK_KIND_RECORD,
    Outcome,
    StreamEntry,
    WorkKind,
)
from opserve_client.errors import invalid_handle
from opserve_client.wire.json_messages import Json

_PROCESS = 2**20
"""A number that no thread has: Perfetto treats the thread with its process's number as the main
thread. Threads are numbered from 1, as Perfetto reserves thread 0 for idle processors."""
_NS_PER_S = 1e9
_NS_PER_US = 1e3
_MS_PER_S = 1e3
Event = dict[str, Json]


def timeline_of_stream(timeline: GetTimelineResponse, stream: int) -> GetTimelineResponse:
    """Returns the part of a timeline that a stream has.

    Raises:
        AclrtError: 107017, the timeline has no such stream.
    """
    found = [one for one in timeline.streams if one.stream == stream]
    if not found:
        allowed = ", ".join(str(one.stream) for one in timeline.streams)
        raise invalid_handle("stream", str(stream), f"a stream of the session: {allowed}")
    return GetTimelineResponse(streams=found, kernel_variant=timeline.kernel_variant)


def chrome_trace(timeline: GetTimelineResponse, *, process: str) -> dict[str, Json]:
    """Returns the trace as a JSON object; times are microseconds since its first event.

    Args:
        timeline: The timeline of the session.
        process: Name of the session in the trace.
    """
    zero_s = min(_times(timeline), default=0.0)
    events: list[Json] = [_event("M", 1, "process_name", args={"name": process})]
    for thread, stream in enumerate(timeline.streams, start=1):
        events += _thread(thread, f"stream {stream.stream}" if stream.stream else "default stream")
        events += _work(thread, stream.entries, zero_s)
    for thread, copies in enumerate(_rows(timeline.copies), start=len(timeline.streams) + 1):
        events += _thread(thread, "copies")
        events += [_copy(thread, copy, zero_s) for copy in copies]
    metadata: Json = {"kernel_variant": timeline.kernel_variant}
    return {"displayTimeUnit": "ms", "otherData": metadata, "traceEvents": events}


def _times(timeline: GetTimelineResponse) -> Iterator[float]:
    for stream in timeline.streams:
        yield from (entry.queued_s for entry in stream.entries)
    yield from (copy.started_s for copy in timeline.copies)


def _work(thread: int, entries: Sequence[StreamEntry], zero_s: float) -> Iterator[Event]:
    """Yields the entries of a stream as slices that do not overlap, like the work."""
    free_s = zero_s
    for entry in sorted(entries, key=lambda entry: entry.ended_s):
        name = entry.operator or f"{WorkKind.Name(entry.kind)[10:].lower()} event {entry.handle}"
        details = _details(entry)
        if entry.kind == WORK_KIND_RECORD or not entry.HasField("started_s"):
            yield _instant(thread, name, (entry.ended_s - zero_s), details)
            continue
        # The start of a stopped call is the time it went to the device, where it may have waited
        # behind another call: its slice begins after that call's.
        start_s = min(max(entry.started_s, free_s), entry.ended_s)
        free_s = entry.ended_s
        category = "kernel" if entry.kind == WORK_KIND_EXECUTE else "wait"
        yield _slice(thread, name, category, (start_s - zero_s, free_s - zero_s), details)


def _details(entry: StreamEntry) -> Event:
    details: Event = {"number": entry.number, "handle": entry.handle}
    if entry.HasField("started_s"):
        details["queue_ms"] = round((entry.started_s - entry.queued_s) * _MS_PER_S, 6)
    if entry.HasField("kernel_s"):  # less than the slice, where the call paused for others
        details["kernel_ms"] = round(entry.kernel_s * _MS_PER_S, 6)
    if entry.outcome != OUTCOME_DONE:
        details |= {"outcome": Outcome.Name(entry.outcome)[8:], "reason": entry.reason}
    return details


def _rows(copies: Iterable[CopyEntry]) -> list[list[CopyEntry]]:
    """Assigns the copies to as few rows as possible without overlaps in a row."""
    rows: list[list[CopyEntry]] = []
    for copy in sorted(copies, key=lambda copy: copy.started_s):
        row = next((row for row in rows if row[-1].ended_s <= copy.started_s), None)
        if row is None:
            rows.append([copy])
        else:
            row.append(copy)
    return rows


def _copy(thread: int, copy: CopyEntry, zero_s: float) -> Event:
    name = CopyKind.Name(copy.kind)[10:].lower()
    details: Event = {"buffer": copy.buffer, "size_bytes": copy.size_bytes}
    return _slice(thread, name, "copy", (copy.started_s - zero_s, copy.ended_s - zero_s), details)


def _slice(
    thread: int, name: str, category: str, between_s: tuple[float, float], details: Event
) -> Event:
    # Both ends are rounded, and the length is their difference: so neighbours never overlap.
    start_ns, end_ns = (round(time_s * _NS_PER_S) for time_s in between_s)
    return _event(
        "X",
        thread,
        name,
        cat=category,
        ts=start_ns / _NS_PER_US,
        dur=(end_ns - start_ns) / _NS_PER_US,
        args=details,
    )


def _instant(thread: int, name: str, at_s: float, details: Event) -> Event:
    at_us = round(at_s * _NS_PER_S) / _NS_PER_US
    return _event("i", thread, name, cat="event", ts=at_us, s="t", args=details)


def _thread(thread: int, name: str) -> Iterator[Event]:
    yield _event("M", thread, "thread_name", args={"name": name})
    yield _event("M", thread, "thread_sort_index", args={"sort_index": thread})


def _event(phase: str, thread: int, name: str, **members: Json) -> Event:
    return {"ph": phase, "pid": _PROCESS, "tid": thread, "name": name, **members}
