"""Handles grow within a session, on both sides and in any order of arrival."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from client.fake_service import FakeService
from client.samples import convolution, numbers
from opserve.v1.command_service_pb2 import Command
from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.event_service_pb2 import CreateEventRequest
from opserve.v1.memory_service_pb2 import AllocateRequest, ReadRequest, WriteRequest, WriteResponse
from opserve.v1.stream_service_pb2 import CreateStreamRequest
from opserve_client import AsyncClient, AsyncSession, Session
from opserve_client.handles import Handles, choose_handle
from opserve_client.transports import AsyncMemoryTransport, AsyncTransport
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.methods import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
SEED = 20


class DawdlingTransport(AsyncTransport):
    """Lets other calls overtake each call, by a pinned seed."""

    def __init__(self, fake: FakeService) -> None:
        self._inner = AsyncMemoryTransport(fake)
        self._random = random.Random(SEED)  # noqa: S311

    async def _dawdle(self) -> None:
        for _ in range(self._random.randrange(20)):
            await asyncio.sleep(0)

    @override
    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        await self._dawdle()
        return await self._inner.call(method, request, timeout_s=timeout_s)

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        await self._dawdle()
        return await self._inner.write(request, data, timeout_s=timeout_s)

    @override
    def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes]:
        return self._inner.read(request, timeout_s=timeout_s)

    @override
    def watch(
        self, method: Method[Request, Response], request: Request
    ) -> AsyncGenerator[Response]:
        return self._inner.watch(method, request)

    @override
    def archive(
        self, method: Method[Request, ArchiveT], request: Request, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        return self._inner.archive(method, request, timeout_s=timeout_s)

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        await self._dawdle()
        return await self._inner.verify(request, data, timeout_s=timeout_s)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        await self._dawdle()
        return await self._inner.report(messages, timeout_s=timeout_s)

    @override
    async def close(self) -> None:
        await self._inner.close()


async def use(session: AsyncSession) -> None:
    """Makes handles through each entry point."""
    await session.run(convolution(input=numbers(2, 3, 100, 100)))
    await session.allocate(8)
    await session.create_stream()
    await session.create_event()
    await session.submit([Command(allocate=AllocateRequest(size_bytes=8))])


async def test_handles_are_in_order_when_calls_overtake_each_other() -> None:
    fake = FakeService()  # refuses a handle that is not above all before it
    async with (
        AsyncClient(transport=DawdlingTransport(fake)) as client,
        client.open_session() as session,
    ):
        await asyncio.gather(*(use(session) for _ in range(12)))
    assert session.last_handles == Handles(buffer=12 * 9, executor=12, stream=12, event=12)


def test_handles_of_a_batch_that_are_zero_are_chosen(session: Session) -> None:
    results = session.submit(
        [
            Command(allocate=AllocateRequest(size_bytes=8)),
            Command(allocate=AllocateRequest(size_bytes=8, buffer=40)),
            Command(allocate=AllocateRequest(size_bytes=8)),
            Command(create_stream=CreateStreamRequest()),
            Command(create_event=CreateEventRequest()),
        ]
    )
    assert [result.allocate.buffer for result in results[:3]] == [1, 40, 41]
    assert session.last_handles == Handles(buffer=41, executor=0, stream=1, event=1)


def test_a_lost_answer_leaves_the_handles_in_step(session: Session, fake: FakeService) -> None:
    fake.failures["CreateStream"] = [RuntimeError("the answer never came")]
    with contextlib.suppress(RuntimeError):
        session.create_stream()
    assert session.create_stream().handle == 2


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from(["allocate", "get_workspace_size", "create_stream", "free"])))
def test_chosen_handles_count_up_by_kind(names: list[str]) -> None:
    last = Handles()
    seen: dict[str, list[Any]] = {"buffer": [], "executor": [], "stream": []}
    for name in names:
        command = Command()
        getattr(command, name).SetInParent()
        last = choose_handle(command, last)
        kinds = {"allocate": "buffer", "get_workspace_size": "executor", "create_stream": "stream"}
        if name in kinds:
            seen[kinds[name]].append(getattr(getattr(command, name), kinds[name]))
    assert all(made == list(range(1, len(made) + 1)) for made in seen.values())
