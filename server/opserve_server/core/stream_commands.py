"""Commands on streams, with their handlers."""

import asyncio
from dataclasses import dataclass

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.handler import Handler, Handlers
from opserve_server.core.results import Done, Queried, StreamCreated
from opserve_server.core.session import Session
from opserve_server.core.streams import FailureMode, Stream
from opserve_server.core.waiting import wait_for_all, wait_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """Makes a stream.

    Attributes:
        stream: Handle of the new stream, chosen by the client; 0: the service chooses it.
    """

    stream: int = 0


async def _create_stream(session: Session, command: CreateStream) -> StreamCreated:
    handle = session.streams.next_handle(command.stream)
    session.streams.put(handle, session.new_stream(handle))
    return StreamCreated(stream=handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyStream:
    """Waits for a stream's work and ends it.

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


async def _destroy_stream(session: Session, command: DestroyStream) -> Done:
    if command.stream == 0:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            "stream is 0, the default stream, which stays: name one that CreateStream made.",
            parameter="stream",
            given=0,
            allowed="a stream that CreateStream made",
        )
    stream = session.streams.get(command.stream)
    deadline_s = asyncio.get_running_loop().time() + session.limits.wait_limit_s
    while not stream.complete:  # work may be submitted during the wait
        await _wait(stream, max(deadline_s - asyncio.get_running_loop().time(), 0.0))
        session.check_open()
    # Removed without an await after the last check: no work can be submitted in between.
    session.streams.remove(command.stream).history.end()
    session.stopped_streams.discard(command.stream)
    _raise_error(stream)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFailureMode:
    """Sets, once, what a stream does with the work behind a failed one.

    Attributes:
        stream: Handle of the stream.
        mode: What happens to the work behind a failed one.
    """

    stream: int = 0
    mode: FailureMode = FailureMode.CONTINUE


async def _set_failure_mode(session: Session, command: SetFailureMode) -> Done:
    session.streams.get(command.stream).set_failure_mode(command.mode)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeStream:
    """Waits for a stream's work; timeout_ms None or -1 means the server's limit.

    Attributes:
        stream: Handle of the stream.
        timeout_ms: Longest wait, milliseconds; None and -1: the limit of the service.
    """

    stream: int = 0
    timeout_ms: int | None = None


async def _synchronize_stream(session: Session, command: SynchronizeStream) -> Done:
    timeout_s = wait_seconds(command.timeout_ms, session.limits.wait_limit_s)
    await synchronize(session, session.streams.get(command.stream), timeout_s=timeout_s)
    return Done()


async def synchronize(session: Session, stream: Stream, *, timeout_s: float) -> None:
    """Waits for a stream's work.

    Raises:
        ExecutionFailed: Work failed since the last wait.
        HandleNotFound: 107017, the session ended.
        WaitTimedOut: 507046, the work is not done in time.
    """
    await _wait(stream, timeout_s)
    session.check_open()  # work that the session's end dropped was not done
    _raise_error(stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStream:
    """Drops a stream's queued work and stops what runs (aclrtStreamAbort).

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


async def _abort_stream(session: Session, command: AbortStream) -> Done:
    stream = session.streams.get(command.stream)
    stream.abort()
    await _wait(stream, session.limits.wait_limit_s)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStream:
    """Returns whether a stream has work left.

    Attributes:
        stream: Handle of the stream.
    """

    stream: int = 0


async def _query_stream(session: Session, command: QueryStream) -> Queried:
    return Queried(complete=session.streams.get(command.stream).complete)


StreamCommand = (
    CreateStream | DestroyStream | SetFailureMode | SynchronizeStream | AbortStream | QueryStream
)
STREAM_COMMANDS: Handlers = {
    CreateStream: Handler(_create_stream, new_work=True),
    DestroyStream: Handler(_destroy_stream, waits=True),
    SetFailureMode: Handler(_set_failure_mode),
    SynchronizeStream: Handler(_synchronize_stream, waits=True),
    AbortStream: Handler(_abort_stream, waits=True),
    QueryStream: Handler(_query_stream),
}


async def _wait(stream: Stream, timeout_s: float) -> None:
    await wait_for_all(
        [stream.over()],
        timeout_s=timeout_s,
        status=Status.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        what=f"stream {stream.handle}",
    )


def _raise_error(stream: Stream) -> None:
    error = stream.take_error()
    if error is not None:
        raise error
