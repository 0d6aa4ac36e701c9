"""Commands on events."""

from typing import assert_never

from opserve_kernels.status import Status
from opserve_server.core.commands import (
    CreateEvent,
    DestroyEvent,
    EventElapsedTime,
    QueryEvent,
    RecordEvent,
    StreamWaitEvent,
    SynchronizeEvent,
)
from opserve_server.core.events import Event, Record, elapsed_ms
from opserve_server.core.results import Done, Elapsed, EventCreated, Queried
from opserve_server.core.session import Session
from opserve_server.core.waiting import wait_for_all, wait_seconds
from opserve_server.core.work import Mark, Wait

EventCommand = (
    CreateEvent
    | DestroyEvent
    | RecordEvent
    | StreamWaitEvent
    | QueryEvent
    | SynchronizeEvent
    | EventElapsedTime
)


async def run(session: Session, command: EventCommand) -> EventCreated | Queried | Elapsed | Done:
    """Carries out a command on events."""
    match command:
        case CreateEvent():
            handle = session.events.next_handle(command.event)
            session.events.put(handle, Event(handle))
            return EventCreated(event=handle)
        case DestroyEvent():
            session.events.remove(command.event)
        case RecordEvent():
            _record(session, command)
        case StreamWaitEvent():
            _stream_wait(session, command)
        case QueryEvent():
            return Queried(complete=session.events.get(command.event).complete)
        case SynchronizeEvent():
            await _synchronize(session, command)
        case EventElapsedTime():
            start, end = session.events.get(command.start), session.events.get(command.end)
            return Elapsed(elapsed_ms=elapsed_ms(start, end))
        case _:
            assert_never(command)
    return Done()


def _record(session: Session, command: RecordEvent) -> None:
    event = session.events.get(command.event)
    record = Record()
    session.streams.get(command.stream).submit(Mark(event.handle, record))
    event.latest = record


def _stream_wait(session: Session, command: StreamWaitEvent) -> None:
    event = session.events.get(command.event)
    stream = session.streams.get(command.stream)
    if event.latest is not None:
        stream.submit(Wait(event.handle, event.latest))


async def _synchronize(session: Session, command: SynchronizeEvent) -> None:
    event = session.events.get(command.event)
    await wait_for_all(
        [] if event.latest is None else [event.latest.done],
        timeout_s=wait_seconds(command.timeout_ms, session.limits.wait_limit_s),
        status=Status.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        what=f"event {command.event}",
    )
    session.check_open()  # the end of a session drops work: it is not done
