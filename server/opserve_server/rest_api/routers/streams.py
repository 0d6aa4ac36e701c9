"""Streams: ordered queues of work."""

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from opserve_server.core.commands import SCOPE
from opserve_server.core.event_commands import StreamWaitEvent
from opserve_server.core.results import Done, Queried, StreamCreated
from opserve_server.core.stream_commands import (
    AbortStream,
    CreateStream,
    DestroyStream,
    QueryStream,
    SetFailureMode,
    SynchronizeStream,
)
from opserve_server.rest_api.dependencies import (
    Handle,
    InSession,
    from_body,
    from_query,
    requires,
)
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.histories import WatchQuery, events_of, sequence_number
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.rest_api.server_sent_events import EVENT_STREAM, streamed

LAST_EVENT_ID = Header(
    alias="Last-Event-ID", description="Id of the last event; what follows it comes."
)
router = APIRouter(
    prefix="/v1/sessions/{session}/streams",
    tags=["streams"],
    route_class=ServiceRoute,
    dependencies=[requires(SCOPE)],
    responses=problems(404, 409),
)


@router.post("", name="CreateStream", status_code=201)
async def create_stream(
    session: InSession, command: Annotated[CreateStream, from_body(CreateStream)]
) -> StreamCreated:
    """Makes a stream."""
    return await session.run(command, StreamCreated)


@router.delete("/{stream:int}", name="DestroyStream", status_code=204, responses=problems(504))
async def destroy_stream(
    session: InSession, command: Annotated[DestroyStream, from_body(DestroyStream, "stream")]
) -> None:
    """Waits for a stream's work and ends it."""
    await session.run(command, Done)


@router.get("/{stream:int}", name="QueryStream")
async def query_stream(
    session: InSession, command: Annotated[QueryStream, from_query(QueryStream, "stream")]
) -> Queried:
    """Returns whether a stream has work left."""
    return await session.run(command, Queried)


@router.post(
    "/{stream:int}:synchronize", name="SynchronizeStream", status_code=204, responses=problems(504)
)
async def synchronize_stream(
    session: InSession,
    command: Annotated[SynchronizeStream, from_body(SynchronizeStream, "stream")],
) -> None:
    """Waits for a stream's work."""
    await session.run(command, Done)


@router.post("/{stream:int}:abort", name="AbortStream", status_code=204, responses=problems(504))
async def abort_stream(
    session: InSession, command: Annotated[AbortStream, from_body(AbortStream, "stream")]
) -> None:
    """Drops a stream's queued work and stops what runs."""
    await session.run(command, Done)


@router.post("/{stream:int}:setFailureMode", name="SetFailureMode", status_code=204)
async def set_failure_mode(
    session: InSession, command: Annotated[SetFailureMode, from_body(SetFailureMode, "stream")]
) -> None:
    """Sets, once, what a stream does with the work behind a failed one."""
    await session.run(command, Done)


@router.post("/{stream:int}:waitEvent", name="StreamWaitEvent", status_code=204)
async def wait_for_event(
    session: InSession, command: Annotated[StreamWaitEvent, from_body(StreamWaitEvent, "stream")]
) -> None:
    """Makes a stream wait for an event's latest record as of now."""
    await session.run(command, Done)


@router.get(
    "/{stream:int}/history",
    name="watchStream",
    response_class=StreamingResponse,
    responses={
        200: {"content": {EVENT_STREAM: {"schema": {"$ref": "#/components/schemas/StreamEntry"}}}}
    },
)
async def watch_stream(
    session: InSession,
    stream: Handle,
    query: Annotated[WatchQuery, Query()],
    last_event_id: Annotated[str | None, LAST_EVENT_ID] = None,
) -> StreamingResponse:
    """Returns the outcomes of a stream's work, as server-sent events."""
    after = query.after if last_event_id is None else sequence_number(last_event_id)
    watching = session.service.watch_stream(session.principal, session.name, stream, after=after)
    return streamed(events_of(watching))
