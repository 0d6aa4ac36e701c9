"""Unauthenticated requests for a verdict, and their cleanup after a disconnection."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from unittest import mock

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from opserve.v1.conformance_service_pb2 import VerifyRequest
from opserve_server.conformance.answers import Verified
from opserve_server.conformance.calls import ListCases
from opserve_server.conformance.request_checks import TEXT_LIMIT, selection_of
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource
from opserve_server.grpc_api.conformance import conformance_api
from opserve_server.rest_api.middleware import service_routes
from opserve_server.rest_api.routers import conformance
from server.conformance_service import LIMITS
from server.recording import RecordingService

pytestmark = pytest.mark.usefixtures("at_work")


def endpoint_of(name: str) -> Callable[[Request], Awaitable[Response]]:
    """The handler of a route."""
    (route,) = [one for one in service_routes([conformance.router]) if one.name == name]
    return route.get_route_handler()


def hung_up(path: dict[str, str], calls: mock.Mock) -> Request:
    """A request whose client has disconnected."""

    async def receive() -> dict[str, str]:
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    scope: dict[str, Any] = {
        "type": "http",
        "headers": [],
        "query_string": b"",
        "path_params": path,
        "app": mock.Mock(**{"state.backend.conformance": calls}),
    }
    return Request(scope, receive)


async def test_bytes_that_wait_for_their_verdict_are_still_under_way() -> None:
    service = RecordingService()
    counter = service.accounts.of(LOCAL.tenant).counters[Resource.BYTES_IN_FLIGHT]
    held = list[float]()

    async def verify(*_: object) -> Verified:
        held.append(counter.use)
        return Verified(case="one", status="PASSED", reason="", verdict="{}")

    async def pieces() -> AsyncGenerator[VerifyRequest]:
        yield VerifyRequest(suite="smoke", case="one", data=b"123")
        yield VerifyRequest(data=b"45")

    conformance = mock.Mock(verify=verify, array_limits=LIMITS.arrays)
    api: Any = conformance_api(service, conformance)
    await api.Verify(pieces(), None)
    assert (held, counter.use) == ([5], 0)


async def test_nothing_is_drawn_for_a_client_that_hung_up() -> None:
    ended = asyncio.Event()

    async def archive(_: object) -> AsyncGenerator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            ended.set()

    asked = {"suite": "smoke", "case": "one"}
    with pytest.raises(ClientDisconnect):
        await endpoint_of("GetInputs")(hung_up(asked, mock.Mock(archive=archive)))
    assert ended.is_set()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ListCases", {"suite": "smoke"}),
        ("GetCase", {"suite": "smoke", "case": "one"}),
        ("GetRun", {"run": "0123456789abcdef"}),
    ],
)
async def test_no_answer_is_made_for_a_client_that_hung_up(name: str, path: dict[str, str]) -> None:
    ended = asyncio.Event()

    async def run(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ClientDisconnect):
        await endpoint_of(name)(hung_up(path, mock.Mock(run=run)))
    assert ended.is_set()


@pytest.mark.parametrize("match", ["fold\0", "fold\n", "f" * (TEXT_LIMIT + 1)])
def test_a_text_that_no_store_takes_is_refused(match: str) -> None:
    selection_of(ListCases(match="fold 3x3"))
    with pytest.raises(InvalidArgument, match="match does not accept 'f"):
        selection_of(ListCases(match=match))
