"""Histories of streams as server-sent events, and timelines of sessions as JSON."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, assert_never

import pydantic_core
from pydantic import BaseModel, Field

from opserve_server.calls import malformed
from opserve_server.core import timeline as core
from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry, LostEntries, News, NoNews, Outcome, WorkKind
from opserve_server.core.time_slices import in_slices
from opserve_server.rest_api.models import DOCUMENTED
from opserve_server.rest_api.server_sent_events import SIGN_OF_LIFE, event

SequenceNumber = Annotated[int, Field(ge=0, le=2**63 - 1)]
_EVENT_ID = re.compile(r"[0-9]{1,18}")


class WatchQuery(BaseModel):
    """Start of a watch, unless a Last-Event-ID header names it."""

    model_config = DOCUMENTED

    after: SequenceNumber = 0
    """The last known sequence number; 0 means all kept entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntry:
    """Work of a stream that has ended. Times are seconds of the service's monotonic clock.

    Attributes:
        sequence: Its number in the order of endings, from 1.
        number: Its number in the order of submission, from 1.
        kind: Kind of work.
        handle: Handle of the executor, or of the event.
        operator: Name of the operator; empty for events.
        queued_s: When it was submitted.
        started_s: When it began; None where it was dropped.
        ended_s: When it ended.
        kernel_s: Seconds that its kernel ran; None where the device reported none.
        outcome: Outcome.
        code: Reason where it is not DONE, as a number; 0 where it is.
        reason: The reason as a name; empty where it is DONE.
    """

    sequence: int
    number: int
    kind: WorkKind
    handle: int
    operator: str
    queued_s: float
    started_s: float | None
    ended_s: float
    kernel_s: float | None
    outcome: Outcome
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeline:
    """The latest work of a stream, in the order in which it ended.

    Attributes:
        stream: Handle of the stream.
        entries: The work.
    """

    stream: int
    entries: list[StreamEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The latest work of a session.

    Attributes:
        streams: The work of each stream.
        copies: The copies.
        kernel_variant: Kernel variant of the session's device.
    """

    streams: list[StreamTimeline]
    copies: list[CopyEntry]
    kernel_variant: str


async def timeline_of(timeline: core.Timeline) -> bytes:
    """A Timeline as JSON: up to 17,000 entries, converted in slices."""
    streams = [(one.stream, list[bytes]()) for one in timeline.streams]
    pairs = zip(streams, timeline.streams, strict=True)
    entries = ((made, entry) for (_, made), one in pairs for entry in one.entries)
    async for made, entry in in_slices(entries):
        made.append(pydantic_core.to_json(_entry(entry)))
    copies = [pydantic_core.to_json(copy) async for copy in in_slices(timeline.copies)]
    joined = (b'{"stream":%d,"entries":[%s]}' % (name, b",".join(made)) for name, made in streams)
    variant = pydantic_core.to_json(timeline.kernel_variant)
    return b'{"streams":[%s],"copies":[%s],"kernel_variant":%s}' % (
        b",".join(joined),
        b",".join(copies),
        variant,
    )


def sequence_number(event_id: str) -> int:
    """The last sequence number of a client, from the Last-Event-ID of a resumed watch."""
    if not _EVENT_ID.fullmatch(event_id):
        raise malformed("Last-Event-ID", given=event_id, allowed="the id of an event")
    return int(event_id)


async def events_of(watching: AsyncGenerator[News]) -> AsyncGenerator[bytes]:
    """News of a stream as server-sent events: `entry`, and `lost` for a gap."""
    yield SIGN_OF_LIFE  # so that the client sees at once that the watch has begun
    async with aclosing(watching):
        async for news in watching:
            yield _event(news)


def _event(news: News) -> bytes:
    match news:
        case HistoryEntry():
            return event("entry", news.sequence, pydantic_core.to_json(_entry(news)))
        case LostEntries():
            return event("lost", news.last, pydantic_core.to_json(news))
        case NoNews():
            return SIGN_OF_LIFE
        case _:
            assert_never(news)


def _entry(entry: HistoryEntry) -> StreamEntry:
    return StreamEntry(
        sequence=entry.sequence,
        number=entry.number,
        kind=entry.kind,
        handle=entry.handle,
        operator=entry.operator,
        queued_s=entry.queued_s,
        started_s=entry.started_s,
        ended_s=entry.ended_s,
        kernel_s=entry.kernel_s,
        outcome=entry.outcome,
        code=0 if entry.status is None else entry.status.value,
        reason="" if entry.status is None else entry.status.name,
    )
