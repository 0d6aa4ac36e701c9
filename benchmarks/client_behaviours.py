"""What tenants of a soak do: what a client can, well and badly, for as long as asked."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import numpy as np

from opserve_client import AsyncClient, AsyncSession, Im2colBackward, OpserveError

LEASE_S = 2.0
EDGES = (4, 32, 256)
"""Edges of images whose calls travel in one message, in one stream, and by a mapping."""
OUT_OF_MEMORY = 207001
Behaviour = Callable[[AsyncSession, random.Random], Awaitable[object]]


def columns(edge: int) -> Im2colBackward:
    """A call that sums 1x1 blocks: an image of its columns."""
    return Im2colBackward(
        grad_output=np.ones((1, edge * edge), np.float32),
        input_size=[edge, edge],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )


async def runs(session: AsyncSession, chance: random.Random) -> None:
    """Arrays in, arrays out, and the right ones."""
    edge = chance.choice(EDGES)
    out = (await session.run(columns(edge))).out
    assert out is not None
    assert out.sum() == edge * edge, "a wrong answer"


async def copies(session: AsyncSession, chance: random.Random) -> None:
    """Bytes up and down, by messages or by a mapping, and the same ones."""
    array = np.full(chance.choice((100, 100_000, 2_000_000)), chance.randrange(256), np.uint8)
    tensor = await session.upload(array)
    assert np.array_equal(await tensor.download(), array), "other bytes"


async def queues_and_aborts(session: AsyncSession, chance: random.Random) -> None:
    """Work on a stream of its own, with events, ended in the middle or waited for."""
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


async def errs(session: AsyncSession, chance: random.Random) -> None:
    """Asks for what is refused."""
    refused: list[Callable[[], Awaitable[object]]] = [
        lambda: session.allocate(1 << 60),
        lambda: session.run(Im2colBackward(grad_output=np.ones(3, np.float32))),
    ]
    with suppress(OpserveError):
        await chance.choice(refused)()
        raise AssertionError("what is wrong was taken")


async def gives_up(session: AsyncSession, _: random.Random) -> None:
    """Hangs up while a call is under way."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await session.run(columns(256))


BEHAVIOURS: tuple[Behaviour, ...] = (runs, runs, copies, queues_and_aborts, errs, gives_up)


async def does(behaviour: Behaviour, session: AsyncSession, chance: random.Random) -> None:
    """Does something, unless the device's memory is used up at the moment."""
    try:
        await behaviour(session, chance)
    except OpserveError as error:
        if error.code != OUT_OF_MEMORY:
            raise


async def stays(session: AsyncSession, *, seed: int, until_s: float) -> None:
    """A tenant whose session goes on from round to round."""
    chance, time = random.Random(seed), asyncio.get_running_loop().time  # noqa: S311  # no secret
    while time() < until_s:
        await does(chance.choice((runs, queues_and_aborts)), session, chance)


async def comes_and_goes(address: str, *, seed: int, until_s: float) -> None:
    """A tenant who connects anew each time, and now and then leaves without a word."""
    chance, time = random.Random(seed), asyncio.get_running_loop().time  # noqa: S311  # no secret
    while time() < until_s:
        async with AsyncClient(address) as client:
            session = await client.open_session(lease_s=LEASE_S)
            for _ in range(chance.randrange(1, 8)):
                await does(chance.choice(BEHAVIOURS), session, chance)
            if chance.random() < 0.8:
                await session.close()
            else:
                await session._heartbeat.stop()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # it vanishes
