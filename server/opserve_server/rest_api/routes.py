"""The routes, as a table, and what they do: read, call the core, answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pydantic_core
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from opserve_kernels.operator import Operator
from opserve_server.calls import caller
from opserve_server.core import commands as core
from opserve_server.core import results
from opserve_server.core.asking import SessionRequest
from opserve_server.core.commands import Command, GetWorkspaceSize
from opserve_server.core.infos import WaitingInfo
from opserve_server.core.service import Service, operator_not_found
from opserve_server.rest_api.answers import (
    Devices,
    Lease,
    Operators,
    Results,
    StillWaiting,
    WaitingRequests,
)
from opserve_server.rest_api.batch import answer_of, commands_in
from opserve_server.rest_api.bodies import JSON, read_json, while_connected
from opserve_server.rest_api.histories import timeline_of
from opserve_server.rest_api.models import (
    DeterministicLevelBody,
    ListOperatorsQuery,
    OpenSessionBody,
    derived,
    parse,
    parse_query,
    planned_body,
    values_of,
)

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class CommandRoute:
    """A command of a session, by method and path.

    Fields that the path does not name come from the body, or from the query of a GET.
    """

    method: str
    path: str
    command: Any  # type[Command]; a union cannot be called with fields known at run time
    answer: type = results.Done

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of success."""
        return _STATUS.get(self.answer, HTTPStatus.OK)

    def fields(self) -> type[BaseModel]:
        """The fields of the command that the path does not name."""
        return derived(self.command, f"{self.command.__name__}Body", without=path_names(self.path))


_STATUS = {
    results.Done: HTTPStatus.NO_CONTENT,
    results.Allocated: HTTPStatus.CREATED,
    results.StreamCreated: HTTPStatus.CREATED,
    results.EventCreated: HTTPStatus.CREATED,
}

COMMAND_ROUTES = (
    CommandRoute("POST", "/buffers", core.Allocate, results.Allocated),
    CommandRoute("DELETE", "/buffers/{buffer}", core.Free),
    CommandRoute("POST", "/buffers/{buffer}:fill", core.Fill),
    CommandRoute("POST", "/buffers/{destination}:copy", core.Copy),
    CommandRoute("POST", "/executors/{executor}:execute", core.Execute),
    CommandRoute("POST", "/executors/{executor}:setRepeatable", core.SetRepeatable),
    CommandRoute("POST", "/executors/{executor}:setTensorBuffer", core.SetTensorBuffer),
    CommandRoute("DELETE", "/executors/{executor}", core.DestroyExecutor),
    CommandRoute("POST", "/streams", core.CreateStream, results.StreamCreated),
    CommandRoute("DELETE", "/streams/{stream}", core.DestroyStream),
    CommandRoute("GET", "/streams/{stream}", core.QueryStream, results.Queried),
    CommandRoute("POST", "/streams/{stream}:synchronize", core.SynchronizeStream),
    CommandRoute("POST", "/streams/{stream}:abort", core.AbortStream),
    CommandRoute("POST", "/streams/{stream}:setFailureMode", core.SetFailureMode),
    CommandRoute("POST", "/streams/{stream}:waitEvent", core.StreamWaitEvent),
    CommandRoute("POST", "/events", core.CreateEvent, results.EventCreated),
    CommandRoute("DELETE", "/events/{event}", core.DestroyEvent),
    CommandRoute("GET", "/events/{event}", core.QueryEvent, results.Queried),
    CommandRoute("POST", "/events/{event}:record", core.RecordEvent),
    CommandRoute("POST", "/events/{event}:synchronize", core.SynchronizeEvent),
    CommandRoute("GET", "/events/{start}:elapsedTime", core.EventElapsedTime, results.Elapsed),
)


def path_names(path: str) -> list[str]:
    """The parameters that a path names, in order."""
    return [piece.partition("}")[0] for piece in path.split("{")[1:]]


def command_endpoint(service: Service, route: CommandRoute, *, limit: int) -> Endpoint:
    """Runs one command."""
    model, names, status = route.fields(), path_names(route.path), route.status

    async def endpoint(request: Request) -> Response:
        if route.method == "GET":
            given = parse_query(model, request)
        else:
            given = parse(model, await read_json(request, limit=limit))
        handles = {name: request.path_params[name] for name in names}
        result = await _run(service, request, route.command(**handles, **values_of(given)))
        return _answer(result, status=status)

    return endpoint


def plan_endpoint(service: Service, operator: Operator[Any], *, limit: int) -> Endpoint:
    """Phase one of one operator."""
    model = planned_body(operator.name)

    async def endpoint(request: Request) -> Response:
        given = values_of(parse(model, await read_json(request, limit=limit)))
        arguments = operator.schema(**values_of(given["arguments"]))
        command = GetWorkspaceSize(
            operator=operator.name, arguments=arguments, executor=given["executor"]
        )
        return _answer(await _run(service, request, command))

    return endpoint


async def submit(service: Service, limit: int, request: Request) -> Response:
    """Many commands in one round trip."""
    keyed = await commands_in(await read_json(request, limit=limit))
    ended = await service.submit(
        caller(),
        request.path_params["session"],
        [command for _, command in keyed],
        request_id=_idempotency_key(request),
    )
    pairs = zip(keyed, ended, strict=False)  # the batch may end early
    return _answer(Results(results=[answer_of(key, result) for (key, _), result in pairs]))


async def list_devices(service: Service, _: Request) -> Response:
    """Every device of the service."""
    return _answer(Devices(devices=service.list_devices(caller())))


async def get_usage(service: Service, _: Request) -> Response:
    """What the caller's tenant uses."""
    return _answer(service.usage(caller()))


async def list_operators(service: Service, request: Request) -> Response:
    """Every operator, or the one that the query names, described."""
    given = parse_query(ListOperatorsQuery, request)
    return _answer(Operators(operators=service.list_operators(caller(), given.operator)))


async def describe_operator(service: Service, request: Request) -> Response:
    """One operator."""
    (description,) = service.list_operators(caller(), request.path_params["operator"])
    return _answer(description)


async def run_unknown(request: Request) -> Response:
    """The one-shot form of an operator that is not there."""
    raise operator_not_found(request.path_params["operator"])


async def open_session(service: Service, limit: int, request: Request) -> Response:
    """A lease on a device."""
    given = values_of(parse(OpenSessionBody, await read_json(request, limit=limit)))
    tell_after_s, key = given.pop("tell_after_s"), _idempotency_key(request)
    asked = SessionRequest(**given)
    if not tell_after_s:
        opening = service.open_session(caller(), asked, request_id=key)
        return _answer(await while_connected(request, opening), status=HTTPStatus.CREATED)
    answer = await while_connected(
        request,
        service.ask_for_session(caller(), asked, request_id=key, tell_after_s=tell_after_s),
    )
    if isinstance(answer, WaitingInfo):
        return _answer(StillWaiting(waiting=answer), status=HTTPStatus.ACCEPTED)
    return _answer(answer, status=HTTPStatus.CREATED)


async def list_waiting(service: Service, _: Request) -> Response:
    """The requests that wait."""
    return _answer(WaitingRequests(waiting=service.list_waiting(caller())))


async def get_session(service: Service, request: Request) -> Response:
    """What a client needs to go on with a session."""
    return _answer(service.get_session(caller(), request.path_params["session"]))


async def keep_alive(service: Service, request: Request) -> Response:
    """Renews a lease."""
    return _answer(Lease(lease_s=service.keep_alive(caller(), request.path_params["session"])))


async def close_session(service: Service, request: Request) -> Response:
    """Ends a session."""
    await service.close_session(caller(), request.path_params["session"])
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def set_deterministic_level(service: Service, limit: int, request: Request) -> Response:
    """How far results must repeat."""
    given = parse(DeterministicLevelBody, await read_json(request, limit=limit))
    service.set_deterministic_level(caller(), request.path_params["session"], given.level)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def get_timeline(service: Service, request: Request) -> Response:
    """What is remembered of a session's work."""
    timeline = service.timeline(caller(), request.path_params["session"])
    return Response(await timeline_of(timeline), media_type=JSON)


async def _run(service: Service, request: Request, command: Command) -> results.Result:
    session: str = request.path_params["session"]
    return await service.run(caller(), session, command, request_id=_idempotency_key(request))


def _idempotency_key(request: Request) -> str:
    return request.headers.get("idempotency-key", "")


def _answer(value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    if status is HTTPStatus.NO_CONTENT:
        return Response(status_code=status)
    return Response(pydantic_core.to_json(value), status_code=status, media_type=JSON)
