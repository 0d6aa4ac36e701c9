"""Commands on streams."""

import asyncio
from typing import assert_never

from opserve_kernels.status import Status
from opserve_server.core.commands import (
    AbortStream,
    CreateStream,
    DestroyStream,
    QueryStream,
    SetFailureMode,
    SynchronizeStream,
)
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.results import Done, Queried, StreamCreated
from opserve_server.core.session import Session
from opserve_server.core.streams import Stream
from opserve_server.core.waiting import wait_for_all, wait_seconds

StreamCommand = (
    CreateStream | DestroyStream | SetFailureMode | SynchronizeStream | AbortStream | QueryStream
)


async def run(session: Session, command: StreamCommand) -> StreamCreated | Queried | Done:
    """Carries out a command on streams."""
    match command:
        case CreateStream():
            handle = session.streams.next_handle(command.stream)
            session.streams.put(handle, session.new_stream(handle))
            return StreamCreated(stream=handle)
        case DestroyStream():
            await _destroy(session, command)
        case SetFailureMode():
            session.streams.get(command.stream).set_failure_mode(command.mode)
        case SynchronizeStream():
            timeout_s = wait_seconds(command.timeout_ms, session.limits.wait_limit_s)
            stream = session.streams.get(command.stream)
            await _wait(stream, timeout_s)
            session.check_open()  # the end of a session drops work: it is not done
            _raise_error(stream)
        case AbortStream():
            stream = session.streams.get(command.stream)
            stream.abort()
            await _wait(stream, session.limits.wait_limit_s)
        case QueryStream():
            return Queried(complete=session.streams.get(command.stream).complete)
        case _:
            assert_never(command)
    return Done()


async def _destroy(session: Session, command: DestroyStream) -> None:
    if command.stream == 0:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            "stream: given 0, the default stream, allowed a stream that CreateStream made",
            parameter="stream",
            given=0,
            allowed="a stream that CreateStream made",
        )
    stream = session.streams.get(command.stream)
    deadline_s = asyncio.get_running_loop().time() + session.limits.wait_limit_s
    while not stream.complete:  # work may be submitted during the wait
        await _wait(stream, max(deadline_s - asyncio.get_running_loop().time(), 0.0))
        session.check_open()
    session.streams.remove(command.stream).history.end()
    _raise_error(stream)


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
