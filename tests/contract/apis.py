"""A sample run through the service by every API and kind of client."""

import inspect
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from contract.rest_transport import RestTransport
from kernels.samples.sample import Bytes, Sample
from opserve.v1.command_service_pb2 import Command
from opserve.v1.memory_service_pb2 import AllocateRequest, FreeRequest
from opserve_client import (
    AsyncClient,
    AsyncSession,
    Client,
    OpserveError,
    Session,
)
from opserve_client.operators import OPERATORS
from opserve_client.private_service import Addresses

CLIENT_CLASSES: Mapping[str, type[Any]] = OPERATORS
AnySession = Session | AsyncSession


@dataclass(frozen=True)
class Refusal:
    """Members of an error at a client, but for the request's id."""

    kind: type[OpserveError]
    code: int | str
    name: str
    message: str
    parameter: str
    given: str
    allowed: str


def client_over(service: Addresses, api: str) -> AsyncClient:
    """A client over gRPC, Connect or REST."""
    if api == "REST":
        return AsyncClient(transport=RestTransport(service.rest))
    return AsyncClient(service.grpc if api == "gRPC" else service.rest)


@asynccontextmanager
async def every_session(service: Addresses, profile: str) -> AsyncGenerator[dict[str, AnySession]]:
    """A session on a profile for each API and kind of client."""
    async with AsyncExitStack() as stack:
        sessions: dict[str, AnySession] = {}
        for api, address in (("gRPC", service.grpc), ("Connect", service.rest)):
            blocking = stack.enter_context(Client(address))
            sessions[f"{api}, blocking"] = stack.enter_context(blocking.open_session(profile))
            client = await stack.enter_async_context(AsyncClient(address))
            opening = client.open_session(profile)
            sessions[f"{api}, async"] = await stack.enter_async_context(opening)
        over_rest = await stack.enter_async_context(client_over(service, "REST"))
        opening = over_rest.open_session(profile)
        sessions["REST"] = await stack.enter_async_context(opening)
        yield sessions


async def settle(answer: Any) -> Any:  # any answer of the client
    """The answer of a blocking call, or of an async one."""
    return await answer if inspect.isawaitable(answer) else answer


async def run_two_phases(
    session: AnySession, sample: Sample, memory: Mapping[str, Bytes]
) -> dict[str, bytes]:
    """Every byte of every buffer after both phases; nothing is left behind."""
    async with _allocated(session, memory) as buffers:
        for name, content in memory.items():
            await settle(buffers[name].write(content))
        await _execute(session, sample, buffers)
        return {name: await settle(buffer.read()) for name, buffer in buffers.items()}


async def refused(session: AnySession, sample: Sample, memory: Mapping[str, Bytes]) -> Refusal:
    """The refusal of a call, without its bytes; all buffers are freed."""
    async with _allocated(session, memory) as buffers:
        with pytest.raises(OpserveError) as raised:
            await _execute(session, sample, buffers)
        return refusal(raised.value)


@asynccontextmanager
async def _allocated(
    session: AnySession, memory: Mapping[str, Bytes]
) -> AsyncGenerator[dict[str, Any]]:
    """A buffer for each name, in a round trip for all of them; they end in another."""
    sizes = {name: content.size for name, content in memory.items()}
    made = await settle(
        session.submit(
            [Command(allocate=AllocateRequest(size_bytes=size)) for size in sizes.values()]
        )
    )
    handles = [result.allocate.buffer for result in made]
    try:
        yield {
            name: session.buffer(handle, size_bytes=size)
            for handle, (name, size) in zip(handles, sizes.items(), strict=True)
        }
    finally:
        await settle(
            session.submit([Command(free=FreeRequest(buffer=handle)) for handle in handles])
        )


def refusal(error: OpserveError) -> Refusal:
    """The members of an error that must not depend on the API."""
    return Refusal(
        type(error),
        error.code,
        error.name,
        error.message,
        error.parameter,
        error.given,
        error.allowed,
    )


def client_scalars(sample: Sample) -> dict[str, Any]:
    """The arguments that are no tensors, as a program passes them to the client."""
    return {name: _plain(value) for name, value in sample.scalars.items()}


def _plain(value: Any) -> Any:  # a dict for a dataclass of the schema
    if not is_dataclass(value):
        return value
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _plain(part) for name, part in given.items() if part is not None}


async def _execute(session: AnySession, sample: Sample, buffers: Mapping[str, Any]) -> None:
    tensors = {
        name: None
        if tensor is None
        else session.tensor(
            buffers[name],
            tensor.shape,
            str(tensor.dtype),
            format=str(tensor.format),
            strides=tensor.strides,
            offset=tensor.offset,
        )
        for name, tensor in sample.tensors.items()
    }
    call = CLIENT_CLASSES[sample.operator](**tensors, **client_scalars(sample))
    plan = await settle(session.get_workspace_size(call))
    size = plan.workspace_size
    workspace = await settle(session.allocate(size)) if size else None
    await settle(session.default_stream.execute(plan.executor, workspace))
    await settle(session.default_stream.synchronize())
    if workspace is not None:
        await settle(workspace.free())
