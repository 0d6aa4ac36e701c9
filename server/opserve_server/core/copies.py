"""Completed copies of a session's bytes."""

from dataclasses import dataclass
from enum import StrEnum


class CopyKind(StrEnum):
    """Direction of a copy."""

    WRITE = "WRITE"
    READ = "READ"
    COPY = "COPY"
    FILL = "FILL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEntry:
    """A completed copy. Times are seconds of the monotonic clock.

    Attributes:
        kind: Direction.
        buffer: Handle of the buffer that was written or read; 0: the tensors of a whole call.
        size_bytes: Bytes moved.
        started_s: Time of the first byte, after any wait for queued work.
        ended_s: Time after the last byte.
    """

    kind: CopyKind
    buffer: int
    size_bytes: int
    started_s: float
    ended_s: float
