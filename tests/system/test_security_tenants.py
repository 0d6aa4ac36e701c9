"""Limits of a tenant: it sees no other, ends with its key, and is charged for what it holds."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import httpx2
import pytest
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse
from typing_extensions import override

from opserve.v1 import stream_service_pb2 as stream_pb
from opserve_server.core.directory import Directory
from opserve_server.core.errors import HandleNotFound, OpserveError, OutOfMemory
from opserve_server.core.keys import sha256_of
from opserve_server.core.observations import ignore
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.tenants import Quota, Resource
from opserve_server.guard import Guard
from opserve_server.rest_api.app import RestApi
from opserve_server.rest_api.dependencies import requires
from opserve_server.rest_api.endpoints import NO_RPCS
from opserve_server.rest_api.middleware import CallMiddleware, service_routes
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.telemetry.metrics import Metrics
from server.core import every_command as c
from server.core.fakes import KIB, ONE_EVENT, FakeDevice, make_service
from server.entry_points import (
    EntryPoints,
    every_route,
    every_rpc,
    headers,
    open_entry_points,
    request_in,
)
from server.guards import CALLS, TENANTS, ServiceWithKeys, service_with_keys

LAB, MILL = (
    Principal(tenant=name, name="tester", scopes=frozenset({Scope.OPERATE}))
    for name in ("lab", "mill")
)
SECRET = random.Random(6).randbytes(KIB)  # noqa: S311  # distinct from zeros, no more


@pytest.fixture
def device() -> Iterator[FakeDevice]:
    made = FakeDevice()
    yield made
    made.slabs.close()


@pytest.fixture
async def core(device: FakeDevice) -> AsyncIterator[Service]:
    made = make_service(device)
    yield made
    await made.stop()


@pytest.fixture
def with_keys(core: Service) -> ServiceWithKeys:
    return service_with_keys(accounts=core.accounts)


@pytest.fixture
async def entry_points(core: Service, with_keys: ServiceWithKeys) -> AsyncIterator[EntryPoints]:
    async with open_entry_points(core, with_keys.guard, Metrics()) as opened:
        yield opened


async def whole_memory(core: Service, owner: Principal) -> tuple[str, list[int]]:
    """A session and buffers that take all that the device has."""
    session = (await core.open_session(owner)).session
    buffers: list[int] = []
    with suppress(OutOfMemory):
        while True:
            made: Any = await core.run(owner, session, c.Allocate(size_bytes=64 * KIB))
            buffers.append(made.buffer)
    return session, buffers


async def read(core: Service, owner: Principal, session: str, buffer: int) -> bytes:
    chunks = core.read(owner, session, buffer=buffer, offset=0, size_bytes=64 * KIB)
    return b"".join([bytes(chunk) async for chunk in chunks])


@pytest.mark.usefixtures("with_keys")
@pytest.mark.parametrize("by_free", [False, True])
async def test_no_tenant_reads_memory_of_another(core: Service, *, by_free: bool) -> None:
    session, buffers = await whole_memory(core, LAB)
    assert len(buffers) >= 8
    for buffer in buffers:
        await core.run(LAB, session, c.Write(buffer=buffer, offset=0, data=SECRET * 60))
        if by_free:
            await core.run(LAB, session, c.Free(buffer=buffer))
    await core.close_session(LAB, session)
    session, mine = await whole_memory(core, MILL)
    assert len(mine) == len(buffers), "all of it is given to the next one"
    for buffer in mine:
        assert not any(await read(core, MILL, session, buffer))


class Counting(dict[str, Any]):
    """Sessions by name; counts what is asked of it."""

    asked = 0

    @override
    def get(self, *key: Any) -> Any:
        self.asked += 1
        return super().get(*key)


async def test_a_foreign_session_costs_the_steps_of_none(
    core: Service, entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    theirs, none = (await core.open_session(LAB)).session, "0" * 32
    sessions = core._sessions
    counting = sessions._sessions = Counting(sessions._sessions)
    for rpc in every_rpc():
        steps: list[int] = []
        for name in (theirs, none):
            request = request_in(rpc, name)
            if request is None:
                continue
            counting.asked = 0
            await entry_points.grpc_answer(rpc, request.SerializeToString(), with_keys.mill)
            steps.append(counting.asked)
        assert len(set(steps)) <= 1, f"{rpc.full_name} took {steps} look-ups"


async def test_no_answer_to_a_tenant_names_another(
    core: Service, entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    core.watches._limits = ONE_EVENT
    opened = await core.open_session(LAB)
    allocated: Any = await core.run(LAB, opened.session, c.Allocate(size_bytes=48_611))
    secrets = (opened.session, opened.session[:8], opened.local_lane_token, "48611", '"lab"')
    seen: list[str] = []
    mine = (await core.open_session(MILL)).session
    for _, verb, path in every_route(session=mine):
        answer = await entry_points.rest_answer(verb, path, with_keys.mill)
        seen += [answer.text, *answer.headers.values()]
    for rpc in every_rpc():
        request = request_in(rpc, mine)
        data = b"" if request is None else request.SerializeToString()
        _, details = await entry_points.grpc_answer(rpc, data, with_keys.mill)
        seen.append(details.decode(errors="replace"))
    pages = [text for text in seen if not text.startswith("# HELP")]  # /metrics has a scope
    assert len(pages) > 80
    assert any("event: change" in text for text in seen), "a watch answered"
    assert [secret for secret in secrets for text in pages if secret and secret in text] == []
    assert allocated.buffer == 1


async def test_handles_of_another_are_none_of_mine(
    core: Service, with_keys: ServiceWithKeys
) -> None:
    assert with_keys.lab
    theirs, mine = [(await core.open_session(who)).session for who in (LAB, MILL)]
    made: Any = await core.run(LAB, theirs, c.Allocate(size_bytes=KIB))
    for session in (mine, theirs):
        with pytest.raises(HandleNotFound):
            await core.run(MILL, session, c.Free(buffer=made.buffer))
    await core.run(LAB, theirs, c.Free(buffer=made.buffer))


def end_of(guard: Guard, key: str) -> None:
    """Revokes a key as a look at the store would."""
    known = guard._directory
    held = {
        digest: replace(record, revoked_at=1.0) if digest == sha256_of(key) else record
        for digest, record in known.keys.items()
    }
    guard.refresh(Directory(tenants=TENANTS, keys=held, certificates={}))


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_watch_over_grpc_ends_with_its_key(
    core: Service, entry_points: EntryPoints, with_keys: ServiceWithKeys, quiet: bool
) -> None:
    session = (await core.open_session(LAB)).session
    stream: Any = await core.run(LAB, session, c.CreateStream())
    event: Any = await core.run(LAB, session, c.CreateEvent())
    record = c.RecordEvent(event=event.event, stream=stream.stream)
    channel: Any = entry_points.channel
    watch = channel.unary_stream("/opserve.v1.StreamService/WatchStream")
    request = stream_pb.WatchStreamRequest(session=session, stream=stream.stream)
    call = watch(request.SerializeToString(), metadata=list(headers(with_keys.lab).items()))
    await core.run(LAB, session, record)
    assert await call.read()
    end_of(with_keys.guard, with_keys.lab)
    if not quiet:
        await core.run(LAB, session, record)
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()
    assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_watches_of_one_tenant_leave_room_for_another(
    core: Service, entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    session = (await core.open_session(LAB)).session
    stream: Any = await core.run(LAB, session, c.CreateStream())
    event: Any = await core.run(LAB, session, c.CreateEvent())
    await core.run(LAB, session, c.RecordEvent(event=event.event, stream=stream.stream))
    channel: Any = entry_points.channel
    watch = channel.unary_stream("/opserve.v1.StreamService/WatchStream")
    request = stream_pb.WatchStreamRequest(session=session, stream=stream.stream)
    metadata = list(headers(with_keys.lab).items())
    calls = [watch(request.SerializeToString(), metadata=metadata) for _ in range(CALLS.of_tenant)]
    for call in calls:
        assert await call.read(), "it has a place"
    devices = channel.unary_unary("/opserve.v1.SessionService/ListDevices")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await devices(b"", metadata=metadata)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await devices(b"", metadata=list(headers(with_keys.mill).items()))
    for call in calls:
        call.cancel()


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_long_answer_over_rest_ends_with_its_key(
    with_keys: ServiceWithKeys, quiet: bool
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"before"
        end_of(with_keys.guard, with_keys.lab)
        if quiet:
            await asyncio.Event().wait()
        yield b"behind"

    router = APIRouter(route_class=ServiceRoute)

    @router.get("/long", name="long", dependencies=[requires(Scope.OPERATE)])
    async def endpoint() -> Response:
        return StreamingResponse(parts())

    app = RestApi(openapi_url=None)
    app.include_router(router)
    app.calls = CallMiddleware(
        routes=service_routes([router]), rpcs=NO_RPCS, guard=with_keys.guard, observe=ignore
    )
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://service.example") as client:
        answer = await client.get("/long", headers=headers(with_keys.lab))
    assert answer.content == b"before"


async def test_the_body_of_a_whole_call_is_charged_as_it_arrives(
    core: Service, entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    account = core.accounts.of("lab")
    account.renew(replace(TENANTS["lab"], quota=Quota(bytes_in_flight=300)))
    path = "/v1/operators/aclnnIm2colBackward:run"
    answer = await entry_points.rest.post(
        path, files={"args": b"{}", "tensors": b"0" * 400}, headers=headers(with_keys.lab)
    )
    assert answer.status_code == 429
    assert answer.json()["parameter"] == Resource.BYTES_IN_FLIGHT
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0
    answer = await entry_points.rest.post(
        path, files={"args": b"{}"}, headers=headers(with_keys.lab)
    )
    assert answer.status_code != 429


async def test_an_error_about_a_handle_reveals_nothing_of_others(core: Service) -> None:
    with pytest.raises(OpserveError) as refusal:
        core.get_session(MILL, "../../etc/passwd\r\nx: y" * 100)
    assert len(refusal.value.message) < 200
