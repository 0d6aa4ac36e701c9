"""Shared parts of drills: a service in its own process, long work, and measurements."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np

from benchmarks.census import census, children_of
from opserve.v1.command_service_pb2 import Command
from opserve.v1.operator_service_pb2 import ExecuteRequest
from opserve_client import AsyncSession, Im2colBackward
from opserve_client._async.memory import AsyncTensor
from opserve_client._async.streams import AsyncPlan
from opserve_client.private_service import PRIVATE_SETTINGS, Addresses

DEADLINE_S = 300
CHANNELS, EDGE = 64, 256
STREAMS, FULL_QUEUE = 6, 1000
SETTINGS = PRIVATE_SETTINGS | {"devices": '["ascend910b"]', "log_level": "INFO"}
Process = asyncio.subprocess.Process


@asynccontextmanager
async def own_process(*program: str, **settings: str) -> AsyncGenerator[tuple[Process, Addresses]]:
    """A service that a test may stop, stall or kill, by its own program unless another is given."""
    chosen = {f"OPSERVE_{key.upper()}": value for key, value in (SETTINGS | settings).items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(program or ("-m", "opserve_server")),
        env=os.environ | chosen,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        ready = json.loads(await process.stdout.readline())
        yield process, Addresses(grpc=ready["grpc"], rest=ready["rest"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@dataclass(frozen=True, slots=True)
class Work:
    """A call of some milliseconds that can be queued any number of times."""

    plan: AsyncPlan
    columns: AsyncTensor
    image: AsyncTensor

    async def out(self) -> bytes:
        """Its results."""
        return (await self.image.download()).tobytes()

    async def free(self) -> None:
        """Frees its tensors, even while calls use them."""
        for tensor in (self.image, self.columns):
            assert tensor.buffer is not None
            await tensor.buffer.free()

    async def queue(self, session: AsyncSession, count: int) -> None:
        for _ in range(count):
            await session.default_stream.execute(self.plan.executor)

    async def queue_at_once(self, session: AsyncSession, count: int, *, stream: int = 0) -> None:
        """In one round trip: the last call is there long before the first few have ended."""
        request = ExecuteRequest(executor=self.plan.executor.handle, stream=stream)
        await session.submit([Command(execute=request)] * count)

    async def queue_much(self, session: AsyncSession) -> None:
        """Full queues of several streams, each in one round trip: many seconds of work."""
        for stream in [await session.create_stream() for _ in range(STREAMS)]:
            await self.queue_at_once(session, FULL_QUEUE, stream=stream.handle)


async def long_work(session: AsyncSession) -> Work:
    """Sums columns (1x1 blocks of ones) into an image of ones."""
    ones = np.ones((CHANNELS, EDGE * EDGE), np.float32)
    columns = await session.upload(ones, format="ND")
    image = await session.empty((CHANNELS, EDGE, EDGE), "float32", format="ND")
    call = Im2colBackward(
        grad_output=columns,
        input_size=[EDGE, EDGE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=image,
    )
    plan = await session.get_workspace_size(call)
    assert plan.workspace_size == 0
    await plan.executor.set_repeatable()

    return Work(plan, columns, image)


EXACT = np.ones((CHANNELS, EDGE, EDGE), np.float32).tobytes()
"""The operation of the work."""


async def until(condition: Callable[[], Awaitable[bool]]) -> float:
    """Waits for a condition outside this process; the seconds that it took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110  # another process changes it
            await asyncio.sleep(0)
    return loop.time() - begun


def tell(what: str, value: float, unit: str = "s") -> None:
    """Prints a measured number; docs/reference/guarantees.md has a row for each."""
    sys.stdout.write(f"drill: {what}: {value:.3g} {unit}\n")


def front_memory_mib(process: Process) -> float:
    """Memory of a service's front that is its own, MiB."""
    return census(process.pid).front_mib


def workers_of(process: Process) -> list[int]:
    """The workers of a service: its front started the fork server, which started them."""
    started = children_of(process.pid)
    return sorted({worker for one in started for worker in children_of(one)})
