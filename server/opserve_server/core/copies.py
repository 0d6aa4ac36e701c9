"""Copies that are over: how a session's bytes moved, and when."""

from dataclasses import dataclass
from enum import StrEnum


class CopyKind(StrEnum):
    """What moved bytes."""

    WRITE = "WRITE"
    READ = "READ"
    COPY = "COPY"
    FILL = "FILL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEntry:
    """A copy that is over. Times are seconds of the monotonic clock.

    Attributes:
        kind: What it was.
        buffer: Handle of the buffer that was written, or that was read.
        size_bytes: Bytes that moved.
        started_s: When its first byte moved, behind any wait for queued work.
        ended_s: When its last byte had moved.
    """

    kind: CopyKind
    buffer: int
    size_bytes: int
    started_s: float
    ended_s: float
