"""Memory mapped into clients of a real service: by whom, for how long, and what is left of it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from opserve.v1.memory_service_pb2 import ReadRequest
from opserve_client import AclrtError, AsyncClient, Client, Im2colBackward, SessionLost
from opserve_client._sync.session_calls import SessionCalls
from opserve_client.shared_memory import MappedBuffer, SharedMemory, Unmapped
from opserve_server.app import running
from opserve_server.serving import Addresses
from opserve_server.settings import Settings

pytestmark = pytest.mark.system
MEMORY_BYTES = 2**24
LARGE = 2**20
HOLDING_CLIENT = """
import sys
from opserve_client import Client
session = Client(sys.argv[1]).open_session("ascend910b", lease_s=1.0)
view = session.allocate(int(sys.argv[2])).map()
view[:] = 255
print("holding", flush=True)
sys.stdin.read()
"""


def settings(*, shared_memory: bool) -> Settings:
    return Settings(
        store_url=SecretStr(""),
        no_keys=True,
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        devices=["ascend910b"],
        device_memory_bytes=MEMORY_BYTES,
        slab_bytes=2**20,
        shared_memory=shared_memory,
    )


@pytest.fixture
async def own_service() -> AsyncIterator[Addresses]:
    async with running(settings(shared_memory=True)) as addresses:
        yield addresses


async def test_a_session_maps_its_own_memory_only(own_service: Addresses) -> None:
    async with (
        AsyncClient(own_service.grpc) as client,
        client.open_session() as one,
        client.open_session() as two,
    ):
        mine, theirs = await one.allocate(LARGE), await two.allocate(LARGE)
        assert mine.handle == theirs.handle
        (await mine.map())[:] = 1
        (await theirs.map())[:] = 2
        assert set(await mine.read()) == {1}
        assert set(await theirs.read()) == {2}
        await one.close()
        with pytest.raises(AclrtError, match="107017"):
            await mine.map()


async def test_a_view_of_a_closed_session_shows_nothing_of_the_next(
    own_service: Addresses,
) -> None:
    async with AsyncClient(own_service.grpc) as client:
        async with client.open_session() as session:
            view = await (await session.allocate(MEMORY_BYTES)).map()
            view[:] = 255
        assert not view.any(), "the session's bytes went with it"
        async with client.open_session() as session:
            buffer = await session.allocate(MEMORY_BYTES)
            view[:] = 7
            assert not np.frombuffer(await buffer.read(), np.uint8).any()
            await buffer.fill(9)
            assert set(view) == {7}


async def test_a_killed_client_leaves_no_byte_in_its_memory(own_service: Addresses) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING_CLIENT, own_service.grpc, str(MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"holding\n"
        holder.kill()
    async with AsyncClient(own_service.grpc) as client, client.open_session() as session:
        deadline = asyncio.get_running_loop().time() + 300
        while (await client.list_devices())[0].free_memory_bytes < MEMORY_BYTES:
            assert asyncio.get_running_loop().time() < deadline, "the lease did not end"
        buffer = await session.allocate(MEMORY_BYTES)
        assert not (await buffer.map()).any()


async def test_a_mapped_workspace_does_not_reach_a_kernel(own_service: Addresses) -> None:
    columns = np.arange(9 * 36, dtype=np.float16).reshape(9, 36)
    call = Im2colBackward(
        grad_output=columns,
        input_size=[8, 8],
        kernel_size=[3, 3],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
    async with AsyncClient(own_service.grpc) as client, client.open_session() as session:
        expected = (await session.run(call)).out
        source = await session.upload(columns)
        out = await session.empty((1, 8, 8), "float16")
        planned = await session.get_workspace_size(
            Im2colBackward(
                grad_output=source,
                input_size=[8, 8],
                kernel_size=[3, 3],
                dilation=[1, 1],
                padding=[0, 0],
                stride=[1, 1],
                out=out,
            )
        )
        workspace = await session.allocate(planned.workspace_size)
        view = await workspace.map()
        view[:] = 255
        await session.default_stream.execute(planned.executor, workspace)
        await session.default_stream.synchronize()
        np.testing.assert_array_equal(await out.download(), expected)
        assert set(view) == {255}


async def test_a_service_without_shared_memory_carries_bytes_by_streams() -> None:
    async with (
        running(settings(shared_memory=False)) as addresses,
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        buffer = await session.allocate(LARGE)
        await buffer.write(b"\5" * LARGE)
        assert set(await buffer.read()) == {5}
        with pytest.raises(AclrtError, match="207000"):
            await buffer.map()
        await buffer.free()
        with pytest.raises(AclrtError, match="107017"):
            await buffer.map()


def large_call(fill: float) -> Im2colBackward:
    """A call of 64 planes of 32x32 whose image is `fill` everywhere."""
    return Im2colBackward(
        grad_output=np.full((64 * 4, 256), fill, np.float32),
        input_size=[32, 32],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[2, 2],
    )


def test_a_run_asks_for_a_mapping_once(service: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    find = SharedMemory.find

    def noted(transport: SharedMemory, buffer: int) -> MappedBuffer | Unmapped:
        asked.append(buffer)
        return find(transport, buffer)

    monkeypatch.setattr(SharedMemory, "find", noted)
    with Client(service.grpc) as client, client.open_session() as session:
        for fill in (1.0, 2.0, 3.0):
            assert set(session.run(large_call(fill)).out.ravel()) == {fill}
        assert len(asked) < 3, "a later run knows where its buffers are"


def test_a_result_that_is_read_after_the_end_of_its_session_is_not_returned(
    service: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SessionCalls.read
    with Client(service.grpc) as client, Client(service.grpc) as other:
        session = client.open_session()
        session.run(large_call(1.0))

        def too_late(calls: SessionCalls, request: ReadRequest, **options: Any) -> memoryview:
            other.resume_session(session.name).close()
            return read(calls, request, **options)

        monkeypatch.setattr(SessionCalls, "read", too_late)
        with pytest.raises(SessionLost):
            session.run(large_call(2.0))


def test_a_wrong_session_and_token_map_nothing(service: Addresses) -> None:
    with Client(service.grpc) as client, client.open_session() as session:
        buffer = session.allocate(LARGE)
        transport = session._calls._shared_memory
        assert transport._address is not None
        name = transport._address.removeprefix("\0opserve-")
        assert SharedMemory(name, "0" * 32, "0" * 32).find(buffer.handle) is Unmapped.NEVER
        assert buffer.map().size == LARGE
