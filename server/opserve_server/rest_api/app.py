"""The REST face: every route on one application, with its OpenAPI document."""

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opserve_kernels.description import OperatorDescription
from opserve_kernels.registry import OPERATORS
from opserve_server.administration import Administration
from opserve_server.calls import ready_profiles
from opserve_server.conformance.conformance import Conformance
from opserve_server.core import results
from opserve_server.core.fair_slots import FairSlots
from opserve_server.core.infos import Usage
from opserve_server.core.principal import ITSELF
from opserve_server.core.service import FoundSession, OpenedSession, Service
from opserve_server.guard import Guard
from opserve_server.rest_api import answers, histories
from opserve_server.rest_api.admin import admin_operations
from opserve_server.rest_api.batch import SubmitBody
from opserve_server.rest_api.bodies import MULTIPART, OCTETS
from opserve_server.rest_api.conformance import conformance_operations
from opserve_server.rest_api.content import WriteQuery, read_content, write_content
from opserve_server.rest_api.face import RestFace
from opserve_server.rest_api.histories import watch_stream
from opserve_server.rest_api.models import (
    DeterministicLevelBody,
    ListOperatorsQuery,
    OpenSessionBody,
    planned_body,
    run_body,
)
from opserve_server.rest_api.one_shot import RunLimits, run_endpoint
from opserve_server.rest_api.openapi import TEXTS, Operation, document_routes
from opserve_server.rest_api.routes import (
    COMMAND_ROUTES,
    CommandRoute,
    close_session,
    command_endpoint,
    describe_operator,
    get_session,
    get_timeline,
    get_usage,
    keep_alive,
    list_devices,
    list_operators,
    list_waiting,
    open_session,
    path_names,
    plan_endpoint,
    run_unknown,
    set_deterministic_level,
    submit,
)

_SESSION = "/v1/sessions/{session}"
_CONTENT = f"{_SESSION}/buffers/{{buffer}}/content"
_METRICS = "text/plain; version=1.0.0; charset=utf-8"
_ONCE = ("Idempotency-Key",)


def rest_app(  # noqa: PLR0913  # each by its name
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    *,
    accepts: Callable[[], bool],
    metrics_page: Callable[[], bytes],
    body_bytes_limit: int,
    run_limits: RunLimits,
) -> RestFace:
    """The application.

    Args:
        service: The core.
        guard: Asked before every call of every route.
        administration: The calls of administration.
        conformance: The calls of conformance.
        accepts: Whether the service takes calls, or is about to end.
        metrics_page: The metrics in Prometheus' text format.
        body_bytes_limit: Bytes of a JSON body at most.
        run_limits: Bounds on one-shot calls.
    """
    operations = [
        *_command_operations(service, body_bytes_limit),
        *_operator_operations(service, body_bytes_limit, run_limits),
        *_in_session_operations(service, body_bytes_limit),
        *_session_operations(service, body_bytes_limit),
        *_waiting_operations(service),
        *_history_operations(service),
        *_listing_operations(service),
        *admin_operations(administration, body_bytes_limit),
        *conformance_operations(service, conformance, body_bytes_limit, run_limits),
    ]
    routes = [
        *map(_route, operations),
        Route("/v1/operators/{operator}:run", run_unknown, methods=["POST"], name="runUnknown"),
        *_watching_routes(service, accepts, metrics_page),
        *document_routes(operations),
    ]
    return RestFace(routes, guard=guard, observe=service.observe)


def _listing_operations(service: Service) -> Iterator[Operation]:
    yield Operation(
        method="GET",
        path="/v1/devices",
        endpoint=partial(list_devices, service),
        name="listDevices",
        summary="Lists the devices of this service.",
        answer=answers.Devices,
    )
    yield Operation(
        method="GET",
        path="/v1/usage",
        endpoint=partial(get_usage, service),
        name="getUsage",
        summary="Tells what the caller's tenant uses now, and how much it may.",
        answer=Usage,
    )
    yield Operation(
        method="GET",
        path="/v1/operators",
        endpoint=partial(list_operators, service),
        name="listOperators",
        summary="Describes every operator, or one: arguments, dtypes by profile, limits, errors.",
        query=ListOperatorsQuery,
        answer=answers.Operators,
    )
    yield Operation(
        method="GET",
        path="/v1/operators/{operator}",
        endpoint=partial(describe_operator, service),
        name="describeOperator",
        summary="Describes the operator of a name or call.",
        answer=OperatorDescription,
    )


def _waiting_operations(service: Service) -> Iterator[Operation]:
    yield Operation(
        method="GET",
        path="/v1/waiting",
        endpoint=partial(list_waiting, service),
        name="listWaiting",
        summary="Lists the tenant's requests that wait for a device.",
        answer=answers.WaitingRequests,
    )


def _session_operations(service: Service, limit: int) -> Iterator[Operation]:
    yield Operation(
        method="POST",
        path="/v1/sessions",
        endpoint=partial(open_session, service, limit),
        name="openSession",
        summary="Opens a session: a lease on one device of a profile, at once or after a wait.",
        status=HTTPStatus.CREATED,
        body=OpenSessionBody,
        headers=_ONCE,
        answer=OpenedSession,
        accepted=answers.StillWaiting,
    )
    yield Operation(
        method="GET",
        path=_SESSION,
        endpoint=partial(get_session, service),
        name="getSession",
        summary="Tells of an open session, so that its client can go on with it; renews the lease.",
        answer=FoundSession,
    )
    yield Operation(
        method="POST",
        path=f"{_SESSION}:keepAlive",
        endpoint=partial(keep_alive, service),
        name="keepAlive",
        summary="Renews the lease; every other call in the session renews it as well.",
        answer=answers.Lease,
    )
    yield Operation(
        method="DELETE",
        path=_SESSION,
        endpoint=partial(close_session, service),
        name="closeSession",
        summary="Ends the session and returns its memory.",
        status=HTTPStatus.NO_CONTENT,
    )


def _in_session_operations(service: Service, limit: int) -> Iterator[Operation]:
    yield Operation(
        method="POST",
        path=f"{_SESSION}:setDeterministicLevel",
        endpoint=partial(set_deterministic_level, service, limit),
        name="setDeterministicLevel",
        summary="Sets how far results must repeat bit by bit.",
        status=HTTPStatus.NO_CONTENT,
        body=DeterministicLevelBody,
    )
    yield Operation(
        method="POST",
        path=f"{_SESSION}:submit",
        endpoint=partial(submit, service, limit),
        name="submit",
        summary="Runs commands in order, up to the first that fails.",
        body=SubmitBody,
        headers=_ONCE,
        answer=answers.Results,
    )


def _history_operations(service: Service) -> Iterator[Operation]:
    yield Operation(
        method="GET",
        path=f"{_SESSION}/timeline",
        endpoint=partial(get_timeline, service),
        name="getTimeline",
        summary="Tells what is remembered of the session's work: streams and copies.",
        answer=histories.Timeline,
    )
    yield Operation(
        method="GET",
        path=f"{_SESSION}/streams/{{stream}}/history",
        endpoint=partial(watch_stream, service),
        name="watchStream",
        summary="Tells what a stream's work came to, as server-sent events that go on.",
        query=histories.WatchQuery,
        headers=("Last-Event-ID",),
        answer=histories.StreamEntry,
        gives=histories.EVENT_STREAM,
    )


def _command_operations(service: Service, limit: int) -> Iterator[Operation]:
    for route in COMMAND_ROUTES:
        yield _command_operation(service, route, limit)
    yield Operation(
        method="PUT",
        path=_CONTENT,
        endpoint=partial(write_content, service),
        name="Write",
        summary="Copies the body into a buffer.",
        query=WriteQuery,
        takes=OCTETS,
        headers=("Content-Digest",),
        answer=results.Written,
    )
    yield Operation(
        method="GET",
        path=_CONTENT,
        endpoint=partial(read_content, service),
        name="Read",
        summary="Copies the bytes that the Range header asks for to the host.",
        status=HTTPStatus.PARTIAL_CONTENT,
        headers=("Range", "Want-Content-Digest"),
        answer=bytes,
    )


def _command_operation(service: Service, route: CommandRoute, limit: int) -> Operation:
    reads = route.method == "GET"
    fields = route.fields()
    given = fields if fields.model_fields else None
    return Operation(
        method=route.method,
        path=f"{_SESSION}{route.path}",
        endpoint=command_endpoint(service, route, limit=limit),
        name=route.command.__name__,
        summary=str(route.command.__doc__).partition("\n")[0],
        status=route.status,
        body=None if reads else given,
        query=given if reads else None,
        headers=() if reads else _ONCE,
        answer=None if route.answer is results.Done else route.answer,
    )


def _operator_operations(
    service: Service, limit: int, run_limits: RunLimits
) -> Iterator[Operation]:
    slots = FairSlots(run_limits.concurrent_runs, waiting_limit=run_limits.waiting_runs)
    for operator in OPERATORS.values():
        yield Operation(
            method="POST",
            path=f"{_SESSION}/operators/{operator.call}:getWorkspaceSize",
            endpoint=plan_endpoint(service, operator, limit=limit),
            name=f"{operator.call}GetWorkspaceSize",
            summary=f"Phase one of {operator.call}.",
            body=planned_body(operator.name),
            headers=_ONCE,
            answer=results.Planned,
        )
        yield Operation(
            method="POST",
            path=f"/v1/operators/{operator.call}:run",
            endpoint=run_endpoint(service, operator, limits=run_limits, slots=slots),
            name=f"{operator.call}Run",
            summary=f"Runs {operator.call} on the arrays of an .npz file and answers an .npz file.",
            body=run_body(operator.name),
            takes=MULTIPART,
            answer=bytes,
        )


def _route(operation: Operation) -> Route:
    path = operation.path
    for name in path_names(path):
        if name not in TEXTS:
            path = path.replace(f"{{{name}}}", f"{{{name}:int}}")
    return Route(path, operation.endpoint, methods=[operation.method], name=operation.name)


def _watching_routes(
    service: Service, accepts: Callable[[], bool], metrics_page: Callable[[], bytes]
) -> Iterator[Route]:
    async def livez(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def readyz(_: Request) -> Response:
        profiles = ready_profiles(service.list_devices(ITSELF))
        ready = accepts() and all(profiles.values())
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse({"ready": ready, "profiles": profiles}, status_code=status)

    async def metrics(_: Request) -> Response:
        return Response(metrics_page(), media_type=_METRICS)

    yield Route("/livez", livez)
    yield Route("/readyz", readyz)
    yield Route("/metrics", metrics)
