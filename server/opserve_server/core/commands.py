"""What a session can be asked to do, and what it answers: a frozen dataclass for each.

Both faces speak in these values; a unary call is a batch of one (see Service.run and submit).
Handles are positive; 0 stands for "none" or, where a handle is made, "the server chooses".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opserve_server.core.errors import OpserveError


class FailureMode(StrEnum):
    """What a stream does with the work behind a failed one (aclrtSetStreamFailureMode)."""

    CONTINUE = "CONTINUE"
    STOP = "STOP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Makes a buffer of size_bytes, or the workspace of an executor."""

    size_bytes: int = 0
    workspace_of: int = 0
    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Ends a buffer."""

    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Sets size_bytes bytes from offset to a value of 0 to 255."""

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Copies host bytes into a buffer."""

    buffer: int = 0
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Copies size_bytes bytes of a buffer to the host."""

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copies bytes between buffers of the session."""

    destination: int = 0
    destination_offset: int = 0
    source: int = 0
    source_offset: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkspaceSize:
    """Phase one of an operator; arguments is an instance of the operator's schema."""

    operator: str
    arguments: Any
    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Phase two: submits an executor; without workspace_size the rest of the buffer counts.

    With timeout_ms it must end within as many milliseconds from now; with cold_caches no byte of it
    is cached when it begins.
    """

    executor: int = 0
    workspace: int = 0
    workspace_offset: int = 0
    workspace_size: int | None = None
    stream: int = 0
    timeout_ms: int | None = None
    cold_caches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRepeatable:
    """Lets an executor run any number of times."""

    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTensorBuffer:
    """Gives the index-th tensor of an executor another buffer."""

    executor: int = 0
    index: int = 0
    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyExecutor:
    """Ends an executor."""

    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """Makes a stream."""

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyStream:
    """Waits for a stream's work and ends it."""

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFailureMode:
    """Sets, once, what a stream does with the work behind a failed one."""

    stream: int = 0
    mode: FailureMode = FailureMode.CONTINUE


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeStream:
    """Waits for a stream's work; timeout_ms None or -1 means the server's limit."""

    stream: int = 0
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStream:
    """Drops a stream's queued work and stops what runs (aclrtStreamAbort)."""

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStream:
    """Tells whether a stream has work left."""

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEvent:
    """Makes an event."""

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyEvent:
    """Ends an event."""

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent:
    """Marks what is submitted on a stream so far."""

    event: int = 0
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaitEvent:
    """Makes a stream wait for the event's latest record as of now."""

    stream: int = 0
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvent:
    """Tells whether an event's latest record is done."""

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeEvent:
    """Waits for an event's latest record; timeout_ms None or -1 means the server's limit."""

    event: int = 0
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventElapsedTime:
    """Milliseconds between the records of two events."""

    start: int = 0
    end: int = 0


Command = (
    Allocate
    | Free
    | Fill
    | Write
    | Read
    | Copy
    | GetWorkspaceSize
    | Execute
    | SetRepeatable
    | SetTensorBuffer
    | DestroyExecutor
    | CreateStream
    | DestroyStream
    | SetFailureMode
    | SynchronizeStream
    | AbortStream
    | QueryStream
    | CreateEvent
    | DestroyEvent
    | RecordEvent
    | StreamWaitEvent
    | QueryEvent
    | SynchronizeEvent
    | EventElapsedTime
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The command was carried out and has nothing to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """A new buffer; buffer 0 where an executor needs no workspace."""

    buffer: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Bytes that were written."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes that were read."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer of phase one."""

    workspace_size: int
    executor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCreated:
    """A new stream."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCreated:
    """A new event."""

    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """Whether a stream's work, or an event's record, is done."""

    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Milliseconds between two events."""

    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The command was refused; nothing behind it in its batch ran."""

    error: OpserveError


Result = (
    Done
    | Allocated
    | Written
    | Content
    | Planned
    | StreamCreated
    | EventCreated
    | Queried
    | Elapsed
    | Failed
)
