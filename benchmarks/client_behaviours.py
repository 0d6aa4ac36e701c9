"""Client behaviours for the soak test: valid, invalid and abandoned calls."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np

from opserve_client import AsyncSession, Im2colBackward

EDGES = (4, 32, 256)
"""Edges of images that are transferred in one message, in one stream, and by shared memory."""
Behaviour = Callable[[AsyncSession, random.Random], Awaitable[object]]


def columns(edge: int) -> Im2colBackward:
    """Returns a call that sums 1x1 blocks: the image of its columns."""
    return Im2colBackward(
        grad_output=np.ones((1, edge * edge), np.float32),
        input_size=[edge, edge],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )


async def run_calls(session: AsyncSession, chance: random.Random) -> None:
    """Runs a call on arrays and checks the result."""
    edge = chance.choice(EDGES)
    out = (await session.run(columns(edge))).out
    assert out is not None
    assert out.sum() == edge * edge, "a wrong answer"


async def copy_bytes(session: AsyncSession, chance: random.Random) -> None:
    """Uploads and downloads bytes, by messages or by shared memory, and compares them."""
    array = np.full(chance.choice((100, 100_000, 2_000_000)), chance.randrange(256), np.uint8)
    tensor = await session.upload(array)
    assert np.array_equal(await tensor.download(), array), "other bytes"


async def queue_and_abort(session: AsyncSession, chance: random.Random) -> None:
    """Queues work with events on a new stream, and aborts it or waits for it."""
    stream, event = await session.create_stream(), await session.create_event()
    buffer = await session.allocate(4096)
    await buffer.fill(1)
    await event.record(stream)
    await session.default_stream.wait_event(event)
    if chance.random() < 0.5:
        await stream.abort()
    await session.default_stream.synchronize()
    await event.destroy()
    await stream.destroy()
    await buffer.free()


async def small_calls(session: AsyncSession, _: random.Random) -> None:
    """Queries a stream, and plans a call that never runs."""
    await session.default_stream.query()
    call = replace(columns(4), grad_output=await session.empty((1, 16), "float32", format="ND"))
    planned = await session.get_workspace_size(
        replace(call, out=await session.empty((1, 4, 4), "float32", format="ND"))
    )
    await planned.executor.destroy()


async def make_errors(session: AsyncSession, chance: random.Random) -> None:
    """Makes a call that the service rejects."""
    rejected_call = Im2colBackward(
        grad_output=np.ones(3, np.float32),
        input_size=1,
        kernel_size=1,
        dilation=1,
        padding=0,
        stride=1,
    )
    rejected: list[Callable[[], Awaitable[object]]] = [
        lambda: session.allocate(1 << 60),
        lambda: session.run(rejected_call),
    ]
    await chance.choice(rejected)()
    raise AssertionError("the service accepted an invalid call")


async def cancel_calls(session: AsyncSession, _: random.Random) -> None:
    """Cancels a running call, unless it is faster."""
    async with asyncio.timeout(0.01):
        await session.run(columns(256))


BEHAVIOURS: tuple[Behaviour, ...] = (
    *(run_calls, run_calls, small_calls, copy_bytes),
    *(queue_and_abort, make_errors, cancel_calls),
)
