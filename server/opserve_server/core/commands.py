"""What a session can be asked to do: a frozen dataclass for each command.

Both faces speak in these values; a unary call is a batch of one (see Service.run and submit).
Handles are positive; 0 stands for "none" or, where a handle is made, "the server chooses".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opserve_server.core.principal import Scope

SCOPE = Scope.OPERATE
"""The scope that each command requires, and each other call of the core."""


class FailureMode(StrEnum):
    """What a stream does with the work behind a failed one (aclrtSetStreamFailureMode)."""

    CONTINUE = "CONTINUE"
    STOP = "STOP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Makes a buffer of size_bytes, or the workspace of an executor.

    Attributes:
        size_bytes: Bytes of the buffer; 0 where it is a workspace.
        workspace_of: Executor whose workspace is allocated, of the size that its plan needs; 0: of
            none.
        buffer: Handle of the new buffer, chosen by the client; 0: the service chooses it.
    """

    size_bytes: int = 0
    workspace_of: int = 0
    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Ends a buffer.

    Attributes:
        buffer: Handle of the buffer.
    """

    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Sets size_bytes bytes from offset to a value of 0 to 255.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is set.
        size_bytes: Number of bytes that are set.
        value: Value of each byte, 0 to 255.
    """

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Copies host bytes into a buffer.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is written.
        data: The bytes.
    """

    buffer: int = 0
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Copies size_bytes bytes of a buffer to the host.

    Attributes:
        buffer: Handle of the buffer.
        offset: First byte that is read.
        size_bytes: Number of bytes that are read.
    """

    buffer: int = 0
    offset: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copies bytes between buffers of the session.

    Attributes:
        destination: Handle of the buffer that is written.
        destination_offset: First byte that is written.
        source: Handle of the buffer that is read.
        source_offset: First byte that is read.
        size_bytes: Number of bytes that are copied.
    """

    destination: int = 0
    destination_offset: int = 0
    source: int = 0
    source_offset: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkspaceSize:
    """Phase one of an operator; arguments is an instance of the operator's schema.

    Attributes:
        operator: Name of the operator, as in the registry.
        arguments: Instance of its schema.
        executor: Handle of the new executor, chosen by the client; 0: the service chooses it.
    """

    operator: str
    arguments: Any
    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Phase two: submits an executor; without workspace_size the rest of the buffer counts.

    With timeout_ms it must end within as many milliseconds from now; with cold_caches no byte of it
    is cached when it begins.

    Attributes:
        executor: Handle of the executor.
        workspace: Handle of the buffer that holds the workspace; 0: none.
        workspace_offset: First byte of the workspace in its buffer.
        workspace_size: Bytes of the workspace; None: the rest of the buffer.
        stream: Handle of the stream that runs it.
        timeout_ms: Milliseconds from now within which it must end; None: no deadline.
        cold_caches: Whether no byte of it is cached when it begins.
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
    """Lets an executor run any number of times.

    Attributes:
        executor: Handle of the executor.
    """

    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTensorBuffer:
    """Gives the index-th tensor of an executor another buffer.

    Attributes:
        executor: Handle of the executor.
        index: Position of the tensor among those of the operator, from 0.
        buffer: Handle of the buffer that holds its elements from now on.
    """

    executor: int = 0
    index: int = 0
    buffer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyExecutor:
    """Ends an executor.

    Attributes:
        executor: Handle of the executor.
    """

    executor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """Makes a stream.

    Attributes:
        stream: Handle of the new stream, chosen by the client; 0: the service chooses it.
    """

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyStream:
    """Waits for a stream's work and ends it.

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFailureMode:
    """Sets, once, what a stream does with the work behind a failed one.

    Attributes:
        stream: Handle of the stream.
        mode: What happens to the work behind a failed one.
    """

    stream: int = 0
    mode: FailureMode = FailureMode.CONTINUE


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeStream:
    """Waits for a stream's work; timeout_ms None or -1 means the server's limit.

    Attributes:
        stream: Handle of the stream.
        timeout_ms: Longest wait, milliseconds; None and -1: the limit of the service.
    """

    stream: int = 0
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStream:
    """Drops a stream's queued work and stops what runs (aclrtStreamAbort).

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStream:
    """Tells whether a stream has work left.

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEvent:
    """Makes an event.

    Attributes:
        event: Handle of the new event, chosen by the client; 0: the service chooses it.
    """

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyEvent:
    """Ends an event.

    Attributes:
        event: Handle of the event.
    """

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent:
    """Marks what is submitted on a stream so far.

    Attributes:
        event: Handle of the event.
        stream: Handle of the stream.
    """

    event: int = 0
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaitEvent:
    """Makes a stream wait for the event's latest record as of now.

    Attributes:
        stream: Handle of the stream that waits.
        event: Handle of the event.
    """

    stream: int = 0
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvent:
    """Tells whether an event's latest record is done.

    Attributes:
        event: Handle of the event.
    """

    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeEvent:
    """Waits for an event's latest record; timeout_ms None or -1 means the server's limit.

    Attributes:
        event: Handle of the event.
        timeout_ms: Longest wait, milliseconds; None and -1: the limit of the service.
    """

    event: int = 0
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventElapsedTime:
    """Milliseconds between the records of two events.

    Attributes:
        start: Handle of the event that was recorded first.
        end: Handle of the event that was recorded last.
    """

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
