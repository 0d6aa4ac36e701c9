"""Sessions: leases on devices, and batches of commands in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from opserve_server.calls import close_session
from opserve_server.core.commands import SCOPE, Command
from opserve_server.core.info import (
    FoundSession,
    OpenedSession,
    ServiceAddress,
    SessionInfo,
    WaitingInfo,
)
from opserve_server.core.service import DeterministicLevel
from opserve_server.core.session_request import SessionRequest
from opserve_server.rest_api.batch import Results, SubmitBody, commands_in, result_in_json
from opserve_server.rest_api.bodies import JSON, while_connected
from opserve_server.rest_api.dependencies import (
    Caller,
    Core,
    IdempotencyKey,
    InSession,
    SessionName,
    requires,
    through_body,
)
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.histories import Timeline, timeline_of
from opserve_server.rest_api.models import DOCUMENTED, OpenSessionBody, values_of
from opserve_server.rest_api.response_models import documented
from opserve_server.rest_api.route import ServiceRoute, answer_of

_SESSION = "/v1/sessions/{session}"
_ANY_DEVICE = OpenSessionBody()

router = APIRouter(tags=["sessions"], route_class=ServiceRoute, dependencies=[requires(SCOPE)])


class DeterministicLevelBody(BaseModel):
    """Required bitwise repeatability of results."""

    model_config = DOCUMENTED

    level: DeterministicLevel
    """OFF, DETERMINISTIC or STRONG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A renewed lease.

    Attributes:
        lease_s: Seconds that the session lives without a call.
    """

    lease_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StillWaiting:
    """A waiting request for a device; the same request again continues to wait.

    Attributes:
        waiting: Its state.
        services: The services of the farm, that of the request first; empty outside a farm.
    """

    waiting: WaitingInfo
    services: tuple[ServiceAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequests:
    """The tenant's waiting requests for a device, in order.

    Attributes:
        waiting: The state of each.
    """

    waiting: list[WaitingInfo]


class SessionIdBody(BaseModel):
    """A session, by its public id."""

    model_config = DOCUMENTED

    id: str = ""
    """Id of the session, as listed."""
    force: bool = False
    """Whether to end it while it has work."""


class SessionIdQuery(BaseModel):
    """A session, by its public id."""

    model_config = DOCUMENTED

    id: str = ""
    """Id of the session, as listed."""


class RequestIdBody(BaseModel):
    """A waiting request, by its public id."""

    model_config = DOCUMENTED

    id: str = ""
    """Id of the request, as listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSessions:
    """The tenant's open sessions, by their public ids; all of them for an administrator.

    Attributes:
        sessions: The sessions.
    """

    sessions: list[SessionInfo]


@router.get("/v1/sessions", name="listSessions")
async def list_sessions(service: Core, principal: Caller) -> OpenSessions:
    """Lists the tenant's open sessions."""
    return OpenSessions(sessions=service.list_sessions(principal))


@router.post(
    "/v1/sessions:release", name="releaseSession", status_code=204, responses=problems(404, 409)
)
async def release_session(service: Core, principal: Caller, body: SessionIdBody) -> None:
    """Ends a session of the tenant by its public id; one with work only with force."""
    await service.release(principal, body.id, force=body.force)


@router.get(
    "/v1/sessions:timeline",
    name="getTimelineById",
    response_model=Timeline,
    responses=problems(404),
)
async def get_timeline_by_id(
    service: Core, principal: Caller, query: Annotated[SessionIdQuery, Query()]
) -> Response:
    """Returns the timeline of a session of the tenant by its public id; renews no lease."""
    timeline = service.timeline_of(principal, query.id)
    return Response(await timeline_of(timeline), media_type=JSON)


@router.post("/v1/waiting:cancel", name="cancelWaiting", status_code=204, responses=problems(404))
async def cancel_waiting(service: Core, principal: Caller, body: RequestIdBody) -> None:
    """Ends a request of the tenant that waits for a device; its client gets an error."""
    service.cancel_waiting(principal, body.id)


@router.post(
    "/v1/sessions",
    name="openSession",
    status_code=201,
    response_model=OpenedSession,
    responses=problems(409, 504, 507) | {202: {"model": documented(StillWaiting)}},
)
async def open_session(
    request: Request,
    service: Core,
    principal: Caller,
    request_id: IdempotencyKey = "",
    body: OpenSessionBody = _ANY_DEVICE,
) -> OpenedSession | Response:
    """Opens a session: a lease on one device of a profile, at once or after a wait."""
    given = values_of(body)
    tell_after_s: float = given.pop("tell_after_s")
    params = SessionRequest(**given)
    if not tell_after_s:
        opening = service.open_session(principal, params, request_id=request_id)
        return await while_connected(request, opening)
    waiting = service.request_session(
        principal, params, request_id=request_id, tell_after_s=tell_after_s
    )
    answer = await while_connected(request, waiting)
    if isinstance(answer, WaitingInfo):
        return answer_of(
            StillWaiting(waiting=answer, services=service.services), HTTPStatus.ACCEPTED
        )
    return answer


@router.get("/v1/waiting", name="listWaiting")
async def list_waiting(service: Core, principal: Caller) -> WaitingRequests:
    """Lists the tenant's requests that wait for a device."""
    return WaitingRequests(waiting=service.list_waiting(principal))


@router.get(_SESSION, name="getSession", responses=problems(404))
async def get_session(service: Core, principal: Caller, session: SessionName) -> FoundSession:
    """Returns an open session, so that its client can continue; renews the lease."""
    return service.get_session(principal, session)


@router.post(f"{_SESSION}:keepAlive", name="keepAlive", responses=problems(404))
async def keep_alive(service: Core, principal: Caller, session: SessionName) -> Lease:
    """Renews the lease; every other call in the session renews it as well."""
    return Lease(lease_s=service.keep_alive(principal, session))


@router.delete(_SESSION, name="closeSession", status_code=204, responses=problems(404))
async def close(service: Core, session: SessionName) -> None:
    """Ends the session and returns its memory; never above the tenant's call rate."""
    await close_session(service, session)


@router.post(
    f"{_SESSION}:setDeterministicLevel",
    name="setDeterministicLevel",
    status_code=204,
    responses=problems(404, 409),
)
async def set_deterministic_level(
    service: Core, principal: Caller, session: SessionName, body: DeterministicLevelBody
) -> None:
    """Sets the required bitwise repeatability of results."""
    service.set_deterministic_level(principal, session, body.level)


@router.post(f"{_SESSION}:submit", name="submit", responses=problems(404, 409))
async def submit(
    session: InSession,
    commands: Annotated[Sequence[tuple[str, Command]], through_body(SubmitBody, commands_in)],
) -> Results:
    """Runs commands in order, up to the first that fails."""
    ended = await session.service.submit(
        session.principal,
        session.name,
        [command for _, command in commands],
        request_id=session.request_id,
    )
    pairs = zip(commands, ended, strict=False)  # the batch may end early
    return Results(results=[result_in_json(key, result) for (key, _), result in pairs])


@router.get(
    f"{_SESSION}/timeline",
    name="getTimeline",
    response_model=Timeline,
    responses=problems(404),
)
async def get_timeline(service: Core, principal: Caller, session: SessionName) -> Response:
    """Returns the kept history of the session's work: streams and copies."""
    timeline = service.timeline(principal, session)
    return Response(await timeline_of(timeline), media_type=JSON)
