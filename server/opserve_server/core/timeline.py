"""Timeline of a session: the kept history of its work."""

from dataclasses import dataclass

from opserve_kernels.operator import variant_on
from opserve_kernels.profiles import PROFILES
from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry
from opserve_server.core.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeline:
    """Kept history of a stream's work, in the order of endings."""

    stream: int
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Kept history of a session's work: live streams and the latest copies.

    `kernel_variant` is that of the session's device.
    """

    streams: tuple[StreamTimeline, ...]
    copies: tuple[CopyEntry, ...]
    kernel_variant: str = ""


def timeline_of(session: Session) -> Timeline:
    """The current timeline of a session."""
    return Timeline(
        streams=tuple(
            StreamTimeline(stream=stream.handle, entries=tuple(stream.history.entries()))
            for stream in session.streams
        ),
        copies=tuple(session.copies),
        kernel_variant=variant_on(PROFILES[session.device.profile]),
    )
