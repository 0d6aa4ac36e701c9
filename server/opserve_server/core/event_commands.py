"""Commands on events, with their handlers."""

from dataclasses import dataclass

from opserve_kernels.status import Status
from opserve_server.core.events import Event, Record, elapsed_ms
from opserve_server.core.handler import Handler, Handlers
from opserve_server.core.results import Done, Elapsed, EventCreated, Queried
from opserve_server.core.session import Session
from opserve_server.core.waiting import wait_for_all, wait_seconds
from opserve_server.core.work import Mark, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEvent:
    """Makes an event.

    Attributes:
        event: Handle of the new event, chosen by the client; 0: the service chooses it.
    """

    event: int = 0


async def _create_event(session: Session, command: CreateEvent) -> EventCreated:
    handle = session.events.next_handle(command.event)
    session.events.put(handle, Event(handle))
    return EventCreated(event=handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyEvent:
    """Ends an event.

    Attributes:
        event: Handle of the event.
    """

    event: int = 0


async def _destroy_event(session: Session, command: DestroyEvent) -> Done:
    session.events.remove(command.event)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent:
    """Marks what is submitted on a stream so far.

    Attributes:
        event: Handle of the event.
        stream: Handle of the stream.
    """

    event: int = 0
    stream: int = 0


async def _record_event(session: Session, command: RecordEvent) -> Done:
    event = session.events.get(command.event)
    record = Record()
    # Submitted before it becomes the latest record: a full queue leaves the event as it was.
    session.streams.get(command.stream).submit(Mark(event.handle, record))
    event.latest = record
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaitEvent:
    """Makes a stream wait for the event's latest record as of now.

    Attributes:
        stream: Handle of the stream that waits.
        event: Handle of the event.
    """

    stream: int = 0
    event: int = 0


async def _stream_wait_event(session: Session, command: StreamWaitEvent) -> Done:
    event = session.events.get(command.event)
    stream = session.streams.get(command.stream)
    # The record of this moment counts: a later RecordEvent does not change the wait
    # (aclrtStreamWaitEvent).
    if event.latest is not None:
        stream.submit(Wait(event.handle, event.latest))
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvent:
    """Returns whether an event's latest record is done.

    Attributes:
        event: Handle of the event.
    """

    event: int = 0


async def _query_event(session: Session, command: QueryEvent) -> Queried:
    return Queried(complete=session.events.get(command.event).complete)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizeEvent:
    """Waits for an event's latest record; timeout_ms None or -1 means the server's limit.

    Attributes:
        event: Handle of the event.
        timeout_ms: Longest wait, milliseconds; None and -1: the limit of the service.
    """

    event: int = 0
    timeout_ms: int | None = None


async def _synchronize_event(session: Session, command: SynchronizeEvent) -> Done:
    event = session.events.get(command.event)
    await wait_for_all(
        [] if event.latest is None else [event.latest.done],
        timeout_s=wait_seconds(command.timeout_ms, session.limits.wait_limit_s),
        status=Status.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        what=f"event {command.event}",
    )
    session.check_open()  # work that the session's end dropped was not done
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventElapsedTime:
    """Milliseconds between the records of two events.

    Attributes:
        start: Handle of the event that was recorded first.
        end: Handle of the event that was recorded last.
    """

    start: int = 0
    end: int = 0


async def _event_elapsed_time(session: Session, command: EventElapsedTime) -> Elapsed:
    start, end = session.events.get(command.start), session.events.get(command.end)
    return Elapsed(elapsed_ms=elapsed_ms(start, end))


EventCommand = (
    CreateEvent
    | DestroyEvent
    | RecordEvent
    | StreamWaitEvent
    | QueryEvent
    | SynchronizeEvent
    | EventElapsedTime
)
EVENT_COMMANDS: Handlers = {
    CreateEvent: Handler(_create_event, new_work=True),
    DestroyEvent: Handler(_destroy_event),
    RecordEvent: Handler(_record_event),
    StreamWaitEvent: Handler(_stream_wait_event),
    QueryEvent: Handler(_query_event),
    SynchronizeEvent: Handler(_synchronize_event, waits=True),
    EventElapsedTime: Handler(_event_elapsed_time),
}
