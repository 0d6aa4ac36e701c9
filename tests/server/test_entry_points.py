"""Every entry point: no call passes without a valid key, and a refusal reveals nothing else."""

from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import grpc
import httpx2
import pytest
from fastapi import APIRouter
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from opserve_server.core.principal import Scope
from opserve_server.grpc_api.methods import WrappingServer
from opserve_server.grpc_api.scopes import SCOPES
from opserve_server.rest_api.app import ROUTES
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.rest_api.routers.service import livez
from opserve_server.telemetry.metrics import Metrics
from server.entry_points import (
    EntryPoints,
    every_grpc_rpc,
    every_route,
    every_rpc,
    open_entry_points,
    opened_by,
    request_in,
)
from server.guards import ServiceWithKeys, service_with_keys
from server.recording import SESSION, RecordingService

FREE = {
    *("livez", "readyz", "openapi", "docs", "docsFile"),
    *("root", "dashboardRoot", "dashboard", "dashboardFile", "dashboardSharedFile"),
}
"""Routes that need no key."""
OPEN = {"root": 307, "dashboardRoot": 307, "dashboardFile": 404, "dashboardSharedFile": 404}
"""Statuses of those that answer otherwise than 200: redirects, and names of no file."""
REFLECTION: Any = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].methods[0]
LIST_DEVICES = next(rpc for rpc in every_rpc() if rpc.name == "ListDevices")
HEALTH: Any = health_pb2.DESCRIPTOR.services_by_name["Health"].methods_by_name["Check"]


@pytest.fixture
def service() -> RecordingService:
    return RecordingService()


@pytest.fixture
def with_keys() -> ServiceWithKeys:
    return service_with_keys()


@pytest.fixture
async def entry_points(
    service: RecordingService, with_keys: ServiceWithKeys
) -> AsyncIterator[EntryPoints]:
    async with open_entry_points(service, with_keys.guard, Metrics()) as opened:
        yield opened


def untouched(service: RecordingService) -> bool:
    return not (service.asked or service.others or service.written)


def test_every_service_has_a_scope_and_only_health_admits_every_caller() -> None:
    found = {rpc.containing_service.full_name for rpc in (*every_grpc_rpc(), REFLECTION)}
    assert found | {HEALTH.containing_service.full_name} == SCOPES.keys()
    assert {name for name, scope in SCOPES.items() if scope is None} == {
        HEALTH.containing_service.full_name
    }
    admin = {name for name, scope in SCOPES.items() if scope is Scope.ADMIN}
    assert admin == {"opserve.v1.AdminService"}


def test_a_service_without_a_scope_is_not_served(with_keys: ServiceWithKeys) -> None:
    server = WrappingServer(mock.Mock(), with_keys.guard, lambda _: None)
    with pytest.raises(KeyError):
        server.add_registered_method_handlers("opserve.v1.Unlisted", {"Steal": mock.Mock()})


def test_every_route_requires_a_scope_but_those_that_are_listed() -> None:
    scopes = {route.name: route.requires.scope for route in ROUTES}
    assert {name for name, scope in scopes.items() if scope is None} == FREE
    assert {name for name, scope in scopes.items() if scope is Scope.METRICS} == {"metrics"}
    paths = {route.path for route in ROUTES if route.path != "/metrics"}
    for route in ROUTES:
        assert (route.requires.scope is Scope.ADMIN) == route.path.startswith("/v1/admin")
    assert len(paths) > 70


def test_a_route_without_a_scope_cannot_be_declared() -> None:
    router = APIRouter(route_class=ServiceRoute)
    with pytest.raises(ValueError, match="not enough values"):
        router.get("/open", name="open")(livez)


async def test_no_rpc_is_reached_without_a_key_that_opens_it(
    entry_points: EntryPoints, with_keys: ServiceWithKeys, service: RecordingService
) -> None:
    wrong = with_keys.closed.values()
    for rpc in (*every_grpc_rpc(), REFLECTION):
        answers = {await entry_points.grpc_answer(rpc, b"", key) for key in wrong}
        ((code, details),) = answers
        without_key, sent_none = await entry_points.grpc_answer(rpc, b"", None)
        assert without_key is code
        assert RpcStatus.FromString(sent_none).message.startswith("No API key was sent"), rpc.name
        for fault, given in with_keys.closed_jobs.items():
            code, _ = await entry_points.grpc_answer(rpc, b"", given)
            assert code is grpc.StatusCode.UNAUTHENTICATED, (rpc.full_name, fault)
        assert code is grpc.StatusCode.UNAUTHENTICATED, rpc.full_name
        info = ErrorInfo()
        assert RpcStatus.FromString(details).details[0].Unpack(info)
        assert (info.reason, info.metadata["parameter"]) == (
            "ACL_ERROR_RT_NO_PERMISSION",
            "authorization",
        )
        code, _ = await entry_points.grpc_answer(rpc, b"", with_keys.metrics)
        assert code is grpc.StatusCode.PERMISSION_DENIED, rpc.full_name
    assert untouched(service)
    code, _ = await entry_points.grpc_answer(HEALTH, b"", None)
    assert code is not grpc.StatusCode.UNAUTHENTICATED
    for opens in (with_keys.lab, with_keys.job):
        code, _ = await entry_points.grpc_answer(next(every_rpc()), b"", opens)
        assert code is grpc.StatusCode.OK


async def test_no_rpc_over_connect_is_reached_without_a_key_that_opens_it(
    entry_points: EntryPoints, with_keys: ServiceWithKeys, service: RecordingService
) -> None:
    for rpc in every_rpc():
        answers = [
            await entry_points.connect_answer(rpc, b"", key) for key in with_keys.closed.values()
        ]
        assert all(answer == answers[0] for answer in answers), rpc.full_name
        without_key, _ = await entry_points.connect_answer(rpc, b"", None)
        lacking, _ = await entry_points.connect_answer(rpc, b"", with_keys.metrics)
        codes = [answers[0][0], without_key, lacking]
        assert codes == ["unauthenticated", "unauthenticated", "permission_denied"], rpc.full_name
        for fault, given in with_keys.closed_jobs.items():
            code, details = await entry_points.connect_answer(rpc, b"", given)
            assert code == "unauthenticated", (rpc.full_name, fault)
            assert given not in str(details)
        assert answers[0][1][0]["debug"]["metadata"]["parameter"] == "authorization"
    assert untouched(service)
    for opens in (with_keys.lab, with_keys.job):
        assert await entry_points.connect_answer(LIST_DEVICES, b"", opens) == ("ok", [])


async def test_every_rpc_over_connect_requires_the_scope_of_its_service(
    entry_points: EntryPoints,
) -> None:
    rpcs = entry_points.app.calls._rpcs
    for rpc in every_rpc():
        found = rpcs[f"/{rpc.containing_service.full_name}/{rpc.name}"]
        for media_type in ("application/json", "application/connect+proto", "text/plain", ""):
            assert found(media_type).scope is SCOPES[rpc.containing_service.full_name]
            assert found(media_type).name == rpc.name
    assert len(rpcs) == len(list(every_rpc()))


async def test_no_route_is_reached_without_a_key_that_opens_it(
    entry_points: EntryPoints, with_keys: ServiceWithKeys, service: RecordingService
) -> None:
    wrong = with_keys.closed.values()
    for name, verb, path in every_route(session=SESSION):
        if name in FREE:
            answer = await entry_points.rest_answer(verb, path, None)
            assert answer.status_code == OPEN.get(name, 200), name
            continue
        answers = [await entry_points.rest_answer(verb, path, key) for key in wrong]
        assert {answer.status_code for answer in answers} == {401}, name
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
        assert len({answer.content for answer in answers}) == 1, name
        without_key = await entry_points.rest_answer(verb, path, None)
        assert without_key.status_code == 401, name
        if verb != "HEAD":
            assert without_key.json()["detail"].startswith("No API key was sent"), name
        for fault, given in with_keys.closed_jobs.items():
            answer = await entry_points.rest_answer(verb, path, given)
            assert answer.status_code == 401, (name, fault)
            assert given not in answer.text
        lacking = with_keys.operate if name == "metrics" else with_keys.metrics
        assert (await entry_points.rest_answer(verb, path, lacking)).status_code == 403, name
    assert untouched(service)
    assert (await entry_points.rest_answer("GET", "/metrics", with_keys.metrics)).status_code == 200
    for opens in (with_keys.operate, with_keys.job):
        answer = await entry_points.rest_answer("GET", "/v1/devices", opens)
        assert answer.status_code == 200


async def test_a_rejected_token_has_one_sentence_over_both_apis(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    rpc = next(rpc for rpc in every_rpc() if rpc.name == "ListDevices")
    said: set[str] = set()
    for given in with_keys.closed_jobs.values():
        _, details = await entry_points.grpc_answer(rpc, b"", given)
        answer = await entry_points.rest_answer("GET", "/v1/devices", given)
        message = RpcStatus.FromString(details).message
        assert answer.json()["detail"] == message
        said.add(message)
    assert len(said) == len(with_keys.closed_jobs)


async def test_the_document_states_that_every_operation_requires_a_key(
    entry_points: EntryPoints,
) -> None:
    document = (await entry_points.rest.get("/openapi.json")).json()
    assert {next(iter(ways)) for ways in document["security"]} == {"key", "certificate"}
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert {one["operationId"] for one in operations} == {
        route.name for route in ROUTES if route.include_in_schema
    }
    others = [route for route in ROUTES if not route.path.startswith("/v2/")]
    hidden = {route.name for route in others if not route.include_in_schema}
    assert hidden == FREE | {"metrics", "runUnknown"}
    for one in operations:
        assert {"401", "403", "429"} <= one["responses"].keys(), one["operationId"]
        assert "security" not in one, "none is an exception"


async def test_a_foreign_session_answers_as_none_over_grpc(
    shared: tuple[EntryPoints, ServiceWithKeys],
) -> None:
    entry_points, with_keys = shared
    session, none = await opened_by(entry_points, with_keys.lab), "f" * 32
    for rpc in every_rpc():
        request, other = request_in(rpc, session), request_in(rpc, none)
        if request is None or other is None:
            continue
        foreign = await entry_points.grpc_answer(rpc, request.SerializeToString(), with_keys.mill)
        missing = await entry_points.grpc_answer(rpc, other.SerializeToString(), with_keys.lab)
        assert foreign[0] is grpc.StatusCode.NOT_FOUND, rpc.full_name
        assert foreign[1] == missing[1].replace(none.encode(), session.encode()), rpc.full_name
    alive = await entry_points.rest_answer(
        "POST", f"/v1/sessions/{session}:keepAlive", with_keys.lab
    )
    assert alive.status_code == 200, "the session is still open"


async def test_a_foreign_session_answers_as_none_over_connect(
    shared: tuple[EntryPoints, ServiceWithKeys],
) -> None:
    entry_points, with_keys = shared
    session, none = await opened_by(entry_points, with_keys.lab), "f" * 32
    for rpc in every_rpc():
        request, other = request_in(rpc, session), request_in(rpc, none)
        if request is None or other is None or rpc.client_streaming:
            continue
        given, sent = request.SerializeToString(), other.SerializeToString()
        code, foreign = await entry_points.connect_answer(rpc, given, with_keys.mill)
        _, missing = await entry_points.connect_answer(rpc, sent, with_keys.lab)
        assert code == "not_found", rpc.full_name
        found, expected = ([one["debug"] for one in given] for given in (foreign, missing))
        assert str(found) == str(expected).replace(none, session), rpc.full_name
    alive = await entry_points.rest_answer(
        "POST", f"/v1/sessions/{session}:keepAlive", with_keys.lab
    )
    assert alive.status_code == 200, "the session is still open"


async def test_a_foreign_session_answers_as_none_over_rest(
    shared: tuple[EntryPoints, ServiceWithKeys],
) -> None:
    entry_points, with_keys = shared
    session, none = await opened_by(entry_points, with_keys.lab), "f" * 32
    there = every_route(session=session)
    nowhere = every_route(session=none)
    asked = 0
    for (name, verb, path), (_, _, other) in zip(there, nowhere, strict=True):
        if session not in path:
            continue
        asked += 1
        foreign = await entry_points.rest_answer(verb, path, with_keys.mill)
        missing = await entry_points.rest_answer(verb, other, with_keys.lab)
        assert foreign.status_code == 404, (name, foreign.text)
        assert foreign.content == missing.content.replace(none.encode(), session.encode()), name
        assert _but_for_length(foreign) == _but_for_length(missing), name
    assert asked > 30
    alive = await entry_points.rest_answer(
        "POST", f"/v1/sessions/{session}:keepAlive", with_keys.lab
    )
    assert alive.status_code == 200, "the session is still open"


def _but_for_length(answer: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "content-length"}


async def test_tenants_share_no_request_id(shared: tuple[EntryPoints, ServiceWithKeys]) -> None:
    entry_points, with_keys = shared
    first = await opened_by(entry_points, with_keys.lab, request_id="same")
    assert await opened_by(entry_points, with_keys.lab, request_id="same") == first
    theirs = await opened_by(entry_points, with_keys.mill, request_id="same")
    assert theirs != first
    found = await entry_points.rest_answer("GET", f"/v1/sessions/{theirs}", with_keys.mill)
    assert found.json()["session"] == theirs
    assert found.json()["last_buffer"] == 0
