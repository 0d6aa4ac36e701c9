"""Effects on clients of the death of a worker or another client, under a real service."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from multiprocessing.process import BaseProcess

import numpy as np
import pytest
from pydantic import SecretStr

from opserve.v1.command_service_pb2 import Command
from opserve.v1.memory_service_pb2 import FillRequest
from opserve_client import AclrtError, AsyncClient, AsyncSession, Im2colBackward
from opserve_server.app import running
from opserve_server.serving import Addresses
from opserve_server.settings import Settings

pytestmark = pytest.mark.system
MEMORY_BYTES = 2**24
COLUMNS = np.arange(16, dtype=np.float32).reshape(4, 4)
DYING_CLIENT = """
import sys
from opserve_client import Client
session = Client(sys.argv[1]).open_session("ascend910b", lease_s=1.0)
session.allocate(int(sys.argv[2]))
print("holding", flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def own_service() -> AsyncIterator[Addresses]:
    """A service in this process, whose workers a test may kill or stop."""
    settings = Settings(
        store_url=SecretStr(""),
        no_keys=True,
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        devices=["ascend910b"],
        device_memory_bytes=MEMORY_BYTES,
        slab_bytes=2**20,
        worker_silence_limit_s=2,
    )
    async with running(settings) as addresses:
        yield addresses


async def check_once(session: AsyncSession) -> None:
    """One whole call, with its right answer."""
    call = Im2colBackward(
        grad_output=COLUMNS,
        input_size=[3, 3],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
    out = (await session.run(call)).out
    assert out is not None
    exact = np.zeros((1, 3, 3), np.float32)
    for tap, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        exact[0, row : row + 2, column : column + 2] += COLUMNS[tap].reshape(2, 2)
    np.testing.assert_array_equal(out, exact)


def workers() -> list[BaseProcess]:
    """Named after their devices; other tests of this process may have children too."""
    return [one for one in multiprocessing.active_children() if one.name == "ascend910b-0"]


def signal_the_worker(number: signal.Signals) -> int:
    (worker,) = workers()
    assert worker.pid is not None
    os.kill(worker.pid, number)
    return worker.pid


async def test_calls_continue_after_the_worker_is_killed(own_service: Addresses) -> None:
    async with (
        AsyncClient(own_service.grpc) as client,
        AsyncClient(own_service.rest) as other,
        client.open_session() as session,
        other.open_session() as over_rest,
    ):
        await check_once(session)
        killed = signal_the_worker(signal.SIGKILL)
        await asyncio.gather(check_once(session), check_once(over_rest))
        assert signal_the_worker(signal.SIGKILL) != killed
        await check_once(session)


async def test_a_worker_that_hangs_is_not_ready_and_is_replaced(
    own_service: Addresses,
) -> None:
    async with AsyncClient(own_service.grpc) as client, client.open_session() as session:
        await check_once(session)
        stopped = signal_the_worker(signal.SIGSTOP)
        call = asyncio.create_task(check_once(session))
        async with asyncio.timeout(300):
            while (await client.list_devices())[0].ready:
                assert not call.done()
            await call
        (worker,) = workers()
        assert worker.pid != stopped
        assert (await client.list_devices())[0].ready


async def test_the_memory_of_a_dead_client_returns_with_its_lease(own_service: Addresses) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DYING_CLIENT, own_service.grpc, str(MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"holding\n"
        async with AsyncClient(own_service.grpc) as client, client.open_session() as session:
            with pytest.raises(AclrtError, match="207001"):
                await session.allocate(MEMORY_BYTES)
            holder.kill()
            deadline = asyncio.get_running_loop().time() + 300
            while (await client.list_devices())[0].free_memory_bytes < MEMORY_BYTES:
                assert asyncio.get_running_loop().time() < deadline, "the lease did not end"
            await session.allocate(MEMORY_BYTES)


async def test_a_handle_of_another_session_is_no_handle(own_service: Addresses) -> None:
    async with (
        AsyncClient(own_service.grpc) as client,
        client.open_session() as one,
        client.open_session() as two,
    ):
        mine, foreign, spare = await one.allocate(64), await two.allocate(64), await two.allocate(8)
        assert mine.handle == foreign.handle
        await mine.fill(1)
        await foreign.fill(2)
        with pytest.raises(AclrtError, match="a buffer of another session") as here:
            one.tensor(foreign, (16,), "float32")
        assert here.value.code == 107017
        # Past the client's own check the number alone travels: it names the session's own buffer
        # or, where the session has none of that number, nothing.
        assert set(await mine.read()) == {1}
        fill = FillRequest(buffer=spare.handle, size_bytes=8, value=3)
        with pytest.raises(AclrtError, match="107017") as there:
            await one.submit([Command(fill=fill)])
        assert there.value.given == str(spare.handle)
        assert set(await foreign.read()) == {2}
