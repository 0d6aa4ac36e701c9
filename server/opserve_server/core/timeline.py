"""The timeline of a session: what is remembered of its work."""

from dataclasses import dataclass

from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry
from opserve_server.core.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeline:
    """What is remembered of a stream's work, in the order of endings."""

    stream: int
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What is remembered of a session's work: of streams that live, and the latest copies."""

    streams: tuple[StreamTimeline, ...]
    copies: tuple[CopyEntry, ...]


def timeline_of(session: Session) -> Timeline:
    """What is remembered now."""
    return Timeline(
        streams=tuple(
            StreamTimeline(stream=stream.handle, entries=tuple(stream.history.entries()))
            for stream in session.streams
        ),
        copies=tuple(session.copies),
    )
