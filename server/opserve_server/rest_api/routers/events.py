"""Events: markers on streams."""

from typing import Annotated

from fastapi import APIRouter

from opserve_server.core.commands import SCOPE
from opserve_server.core.event_commands import (
    CreateEvent,
    DestroyEvent,
    EventElapsedTime,
    QueryEvent,
    RecordEvent,
    SynchronizeEvent,
)
from opserve_server.core.results import Done, Elapsed, EventCreated, Queried
from opserve_server.rest_api.dependencies import InSession, from_body, from_query, requires
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.route import ServiceRoute

router = APIRouter(
    prefix="/v1/sessions/{session}/events",
    tags=["events"],
    route_class=ServiceRoute,
    dependencies=[requires(SCOPE)],
    responses=problems(404, 409),
)


@router.post("", name="CreateEvent", status_code=201)
async def create_event(
    session: InSession, command: Annotated[CreateEvent, from_body(CreateEvent)]
) -> EventCreated:
    """Makes an event."""
    return await session.run(command, EventCreated)


@router.delete("/{event:int}", name="DestroyEvent", status_code=204)
async def destroy_event(
    session: InSession, command: Annotated[DestroyEvent, from_body(DestroyEvent, "event")]
) -> None:
    """Ends an event."""
    await session.run(command, Done)


@router.get("/{event:int}", name="QueryEvent")
async def query_event(
    session: InSession, command: Annotated[QueryEvent, from_query(QueryEvent, "event")]
) -> Queried:
    """Returns whether an event's latest record is done."""
    return await session.run(command, Queried)


@router.post("/{event:int}:record", name="RecordEvent", status_code=204)
async def record_event(
    session: InSession, command: Annotated[RecordEvent, from_body(RecordEvent, "event")]
) -> None:
    """Marks what is submitted on a stream so far."""
    await session.run(command, Done)


@router.post(
    "/{event:int}:synchronize", name="SynchronizeEvent", status_code=204, responses=problems(504)
)
async def synchronize_event(
    session: InSession, command: Annotated[SynchronizeEvent, from_body(SynchronizeEvent, "event")]
) -> None:
    """Waits for an event's latest record."""
    await session.run(command, Done)


@router.get("/{start:int}:elapsedTime", name="EventElapsedTime")
async def elapsed_time(
    session: InSession,
    command: Annotated[EventElapsedTime, from_query(EventElapsedTime, "start")],
) -> Elapsed:
    """Returns the milliseconds between the records of two events."""
    return await session.run(command, Elapsed)
