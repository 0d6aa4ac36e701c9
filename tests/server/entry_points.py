"""The APIs of one service behind a guard with keys, and an enumeration of every entry point."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx2
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from opserve_server.administration import Administration
from opserve_server.connect_api.rpcs import connect_rpcs
from opserve_server.core.service import Service
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.open_inference import SERVICE as OPEN_INFERENCE
from opserve_server.grpc_api.server import _FILES, grpc_server
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.app import ROUTES, RestApi, rest_app
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.telemetry.metrics import Metrics
from server.conformance_service import idle_conformance
from server.connect_api.frames import framed, parted

REQUEST_ID = "of-this-test"
SENDING_FAILED = "Internal error from Core"
"""Details of gRPC's asyncio client."""
RUN_LIMITS = RunLimits(args_bytes=1024, run_bytes=1024, arrays=3, concurrent_runs=1, waiting_runs=4)
BODIES = {":setDeterministicLevel": {"level": "OFF"}, ":setFailureMode": {"mode": "STOP"}}
"""Of routes that refuse an empty one."""

IN_PATHS = {
    "operator": "aclnnNone",
    "tenant": "lab",
    "key": "00000000",
    "suite": "smoke",
    "case": "none",
    "run": "0" * 16,
    "id": "00000000",
    "name": "none",
    "file": "init.js",
    "model": "aclnnIm2col",
    "version": "1",
    "region": "none",
}
"""Values of the parameters of paths."""


@dataclass(frozen=True)
class EntryPoints:
    """The APIs of a service."""

    app: RestApi
    rest: httpx2.AsyncClient
    channel: grpc.aio.Channel

    async def grpc_answer(
        self, rpc: MethodDescriptor, request: bytes, key: str | None
    ) -> tuple[grpc.StatusCode, bytes]:
        """Status and details of a call; both are those of OK where it was answered."""
        while (answer := await self._grpc_answer(rpc, request, key)) is None:
            pass
        return answer

    async def _grpc_answer(
        self, rpc: MethodDescriptor, request: bytes, key: str | None
    ) -> tuple[grpc.StatusCode, bytes] | None:
        """The answer; None where gRPC's client lost it, since the call ended while it sent."""
        metadata = [("x-request-id", REQUEST_ID), *headers(key).items()]
        path = f"/{rpc.containing_service.full_name}/{rpc.name}"
        kind = ("stream" if rpc.client_streaming else "unary") + "_"
        kind += "stream" if rpc.server_streaming else "unary"
        made = getattr(self.channel, kind)(path)
        call = made(iter([request]) if rpc.client_streaming else request, metadata=metadata)
        try:
            if rpc.server_streaming:
                await call.read()
                call.cancel()
            else:
                await call
        except grpc.aio.AioRpcError as error:
            if error.details() == SENDING_FAILED:
                return None
            packed = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
            assert isinstance(packed, bytes)
            return error.code(), packed
        return grpc.StatusCode.OK, b""

    async def connect_answer(
        self, rpc: MethodDescriptor, request: bytes, key: str | None
    ) -> tuple[str, list[dict[str, Any]]]:
        """Code and details of a call; the code is "ok" where it was answered."""
        path = f"/{rpc.containing_service.full_name}/{rpc.name}"
        streams = rpc.client_streaming or rpc.server_streaming
        form = "application/connect+proto" if streams else "application/proto"
        sent = {"content-type": form, "x-request-id": REQUEST_ID, **headers(key)}
        content = framed(request) if streams else request
        answer = await self.rest.post(path, content=content, headers=sent)
        assert answer.headers["x-request-id"] == REQUEST_ID
        error: dict[str, Any] = {"code": "ok", "details": []}
        if streams:
            assert answer.status_code == 200
            error = parted(answer.content)[1].get("error", error)
        elif answer.status_code != 200:
            error = answer.json()
        return error["code"], error["details"]

    async def rest_answer(self, verb: str, path: str, key: str | None) -> httpx2.Response:
        """The answer of a route, to a call with a body where it takes one."""
        sent = {"x-request-id": REQUEST_ID, **headers(key)}
        if verb == "PUT":
            return await self.rest.put(path, content=b"1234", headers=sent)
        if path.endswith((":run", ":verify")):
            files = {"args": b"{}", "tensors": b""}
            return await self.rest.post(path, files=files, headers=sent)
        body = next((body for end, body in BODIES.items() if path.endswith(end)), None)
        return await self.rest.request(verb, path, json=body, headers=sent)


@asynccontextmanager
async def open_entry_points(
    service: Service, guard: Guard, metrics: Metrics, run_limits: RunLimits = RUN_LIMITS
) -> AsyncGenerator[EntryPoints]:
    """The APIs, until the block ends."""
    administration, conformance = Administration(service, None), idle_conformance(service)
    behind = (service, guard, administration, conformance)
    inference = Inference(service, output_bytes_limit=2**20)
    rpcs = connect_rpcs(
        service,
        administration,
        conformance,
        message_bytes_limit=2**20,
        chunk_bytes_limit=2**18,
    )
    app = rest_app(
        *behind,
        inference=inference,
        accepts=lambda: True,
        metrics_page=metrics.page,
        body_bytes_limit=4096,
        run_limits=run_limits,
        rpcs=rpcs,
    )
    server = grpc_server(
        *behind,
        Health(service),
        inference=inference,
        message_bytes_limit=2**20,
        chunk_bytes_limit=2**18,
        silent_client_limit_s=30,
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    transport = httpx2.ASGITransport(app=app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://service.example") as rest,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield EntryPoints(app, rest, channel)
    await server.stop(None)


async def opened_by(entry_points: EntryPoints, key: str, *, request_id: str = "") -> str:
    sent = {"authorization": f"Bearer {key}", "idempotency-key": request_id}
    answer = await entry_points.rest.post("/v1/sessions", headers=sent)
    session: str = answer.json()["session"]
    return session


def headers(key: str | None) -> dict[str, str]:
    """Headers that identify the caller; none for None."""
    return {} if key is None else {"authorization": f"Bearer {key}"}


def every_rpc() -> Iterator[MethodDescriptor]:
    """Every RPC of opserve's services."""
    for file in _FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def every_grpc_rpc() -> Iterator[MethodDescriptor]:
    """Every RPC over gRPC: opserve's, and those of the Open Inference Protocol."""
    yield from every_rpc()
    yield from OPEN_INFERENCE.methods


def request_in(rpc: MethodDescriptor, session: str) -> Message | None:
    """A request that names a session; None where none can."""
    if "session" not in rpc.input_type.fields_by_name:
        return None
    call: dict[str, Any] = {"im2col_backward": {}}
    fields: dict[str, Any] = {"session": session, "level": 1, "mode": 1, "plan": call, **call}
    there = {name: fields[name] for name in fields if name in rpc.input_type.fields_by_name}
    made: Any = message_factory.GetMessageClass(rpc.input_type)
    request: Message = made(**there)
    return request


def every_route(*, session: str) -> Iterator[tuple[str, str, str]]:
    """Name, verb and path of every route, with a session's name where it takes one."""
    for route in ROUTES:
        path = route.path.replace("{session}", session)
        for parameter, value in IN_PATHS.items():
            path = path.replace(f"{{{parameter}}}", value)
        for parameter in route.param_convertors:
            path = path.replace(f"{{{parameter}:int}}", "1")
        for verb in sorted(route.methods or ()):
            yield route.name, verb, path
