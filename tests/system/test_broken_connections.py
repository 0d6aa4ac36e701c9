"""Transfers over connections that are cut in the middle, on both APIs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from opserve_client import AsyncClient
from opserve_client._async import connection
from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system
SIZE = 3 * 2**20 + 5
SEGMENT = 2**20


class CuttingProxy:
    """Forwards connections to a service, and cuts the one that carries a given byte.

    Attributes:
        plan: Bytes that are forwarded before each cut, both directions together.
        tasks: One for each connection; they end with them.
    """

    def __init__(self, service: str) -> None:
        host, _, port = service.rpartition(":")
        self._service = host, int(port)
        self.plan: list[int] = []
        self.tasks = set[asyncio.Task[None]]()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.create_task(self._forward(reader, writer)))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._service)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pump(reader, far_writer))
                ways.create_task(self._pump(far_reader, writer))
        except* ConnectionError:
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(2**14):
            if self.plan:
                self.plan[0] -= len(data)
                if self.plan[0] < 0:
                    del self.plan[0]
                    raise ConnectionAbortedError
            target.write(data)
            await target.drain()
        raise ConnectionResetError


@asynccontextmanager
async def cutting_proxy(service: str) -> AsyncGenerator[tuple[CuttingProxy, str]]:
    proxy = CuttingProxy(service)
    async with await asyncio.start_server(proxy.connected, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield proxy, f"{host}:{port}"
        await asyncio.wait(proxy.tasks)


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_a_transfer_resumes_after_each_cut(
    service: Addresses, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SEGMENT_BYTES", SEGMENT)
    array = np.random.default_rng(4).integers(0, 256, SIZE, np.uint8)
    address: str = getattr(service, api)
    scheme, _, target = address.rpartition("//")
    async with (
        cutting_proxy(target) as (proxy, detour),
        AsyncClient(f"{scheme}//{detour}" if scheme else detour) as client,
        client.open_session() as session,
    ):
        session._calls.forget()
        buffer = await session.allocate(SIZE)
        proxy.plan = [SEGMENT * 3 // 2, SEGMENT // 2]
        await buffer.write(array)
        assert not proxy.plan, "both cuts were made"
        proxy.plan = [SEGMENT * 3 // 2, SEGMENT // 2]
        assert await buffer.read() == array.tobytes()
        assert not proxy.plan
