"""Histories of streams and timelines of sessions as messages."""

from typing import assert_never

from opserve.v1.memory_service_pb2 import CopyEntry as WireCopy
from opserve.v1.memory_service_pb2 import CopyKind as WireCopyKind
from opserve.v1.session_service_pb2 import GetTimelineResponse, StreamTimeline
from opserve.v1.stream_service_pb2 import LostEntries as WireLost
from opserve.v1.stream_service_pb2 import Outcome as WireOutcome
from opserve.v1.stream_service_pb2 import StreamEntry, WatchStreamResponse
from opserve.v1.stream_service_pb2 import WorkKind as WireWorkKind
from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry, LostEntries
from opserve_server.core.time_slices import in_slices
from opserve_server.core.timeline import Timeline


def news_of(news: HistoryEntry | LostEntries) -> WatchStreamResponse:
    """An entry, or a gap, for a watcher."""
    match news:
        case HistoryEntry():
            return WatchStreamResponse(entry=_entry(news))
        case LostEntries(first=first, last=last):
            return WatchStreamResponse(lost=WireLost(first=first, last=last))
        case _:
            assert_never(news)


async def timeline_of(timeline: Timeline) -> GetTimelineResponse:
    """The kept history of a session's work: up to 17,000 entries, converted in slices."""
    streams = [StreamTimeline(stream=one.stream) for one in timeline.streams]
    pairs = zip(streams, timeline.streams, strict=True)
    entries = ((stream, entry) for stream, one in pairs for entry in one.entries)
    async for stream, entry in in_slices(entries):
        stream.entries.append(_entry(entry))
    copies = [_copy(copy) async for copy in in_slices(timeline.copies)]
    return GetTimelineResponse(
        streams=streams, copies=copies, kernel_variant=timeline.kernel_variant
    )


def _entry(entry: HistoryEntry) -> StreamEntry:
    return StreamEntry(
        sequence=entry.sequence,
        number=entry.number,
        kind=WireWorkKind.Value(f"WORK_KIND_{entry.kind}"),
        handle=entry.handle,
        operator=entry.operator,
        queued_s=entry.queued_s,
        started_s=entry.started_s,
        ended_s=entry.ended_s,
        kernel_s=entry.kernel_s,
        outcome=WireOutcome.Value(f"OUTCOME_{entry.outcome}"),
        code=0 if entry.status is None else entry.status.value,
        reason="" if entry.status is None else entry.status.name,
    )


def _copy(copy: CopyEntry) -> WireCopy:
    return WireCopy(
        kind=WireCopyKind.Value(f"COPY_KIND_{copy.kind}"),
        buffer=copy.buffer,
        size_bytes=copy.size_bytes,
        started_s=copy.started_s,
        ended_s=copy.ended_s,
    )
