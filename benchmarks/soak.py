"""make soak: mixed traffic of several tenants, and the growth of the service's resources."""

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple

import numpy as np
from rich.table import Table

from benchmarks.census import COUNTED, Census, census, children_of
from benchmarks.client_behaviours import long_session_load, short_session_load
from benchmarks.report import Goal, console, short, show_goals, write_goals
from opserve_client import AsyncClient, AsyncSession
from opserve_client.private_service import Addresses, private_service

MINUTES = 10.0
ROUND_S = 2.0
TENANTS = 3
"""Tenants with short sessions over each API at the same time, beside one with a long session."""
WARM_UP = 0.25
"""Share of the rounds that do not count, in which caches and pools fill."""
QUIET_S = 30.0
"""Longest time for the service to end the sessions that tenants left unclosed."""
GROWTH = {
    "front_mib": 4.0,
    "workers_mib": 2.0,
    "slabs_mib": 16.0,
    "memfds": 32.0,
    "descriptors": 3.0,
    "threads": 2.0,
    "processes": 0.5,
}
"""Allowed growth in a soak of any length: caches, idle slabs and closing sockets vary as much."""
SETTINGS = {
    "devices": '["ascend910b", "reference"]',
    "device_memory_bytes": str(64 * 2**20),
    "slab_bytes": str(2**20),
    "log_level": "ERROR",
}
"""Little memory, so that tenants exhaust it and pools fill early."""


def main() -> int:
    """Runs the soak, prints, and writes benchmarks/out/soak.json; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    given = parser.parse_args()
    samples = soak(seconds=given.minutes * 60, seed=given.seed)
    goals = judged(samples)
    show(samples, seed=given.seed)
    show_goals(goals)
    write_goals("soak", goals)
    passed = all(goal.met for goal in goals)
    console().print("PASS" if passed else "FAIL")
    return 0 if passed else 1


def soak(*, seconds: float, seed: int) -> list[Census]:
    """Returns the resources of a service after each round, without sessions of tenants."""
    others = set(children_of(os.getpid()))  # services of other tests in this process
    with private_service(**SETTINGS) as addresses:
        front = next(child for child in children_of(os.getpid()) if child not in others)
        return asyncio.run(_rounds(addresses, front, seconds=seconds, seed=seed))


def judged(samples: Sequence[Census]) -> list[Goal]:
    """Returns the growth of each resource after the warm-up, by a least-squares line."""
    counted = samples[int(len(samples) * WARM_UP) :]
    return [
        Goal(
            goal=f"growth of {name} in {len(counted)} rounds",
            value=slope([getattr(sample, name) for sample in counted]) * (len(counted) - 1),
            target=GROWTH[name],
            better="lower",
        )
        for name in COUNTED
    ]


def slope(values: Sequence[float]) -> float:
    """Returns the growth from one value to the next, by least squares."""
    return float(np.polyfit(np.arange(len(values)), np.asarray(values), 1)[0])


def show(samples: Sequence[Census], *, seed: int) -> None:
    table = Table("round", *COUNTED, title=f"soak, seed {seed}: resources between rounds")
    step = max(len(samples) // 10, 1)
    for number in range(0, len(samples), step):
        table.add_row(str(number), *map(short, astuple(samples[number])))
    console().print(table)


async def _rounds(addresses: Addresses, front: int, *, seconds: float, seed: int) -> list[Census]:
    time = asyncio.get_running_loop().time
    end_s = time() + seconds
    samples: list[Census] = []
    async with (
        AsyncClient(addresses.grpc) as client,
        AsyncClient(addresses.rest) as over_rest,
        client.open_session() as session,
        over_rest.open_session() as other,
    ):
        while time() < end_s:
            await _round(addresses, (session, other), seed=seed + 1000 * len(samples))
            await _until_quiet(client)
            samples.append(await _settled(front, samples[-1:]))
    return samples


async def _round(addresses: Addresses, staying: Sequence[AsyncSession], *, seed: int) -> None:
    until_s = asyncio.get_running_loop().time() + ROUND_S
    async with asyncio.TaskGroup() as tenants:
        for number, session in enumerate(staying):
            tenants.create_task(long_session_load(session, seed=seed + number, until_s=until_s))
        for number in range(TENANTS):
            for api, address in enumerate((addresses.grpc, addresses.rest)):
                load_seed = seed + 100 * (api + 1) + number
                tenants.create_task(short_session_load(address, seed=load_seed, until_s=until_s))


async def _until_quiet(client: AsyncClient) -> None:
    """Waits until the leases of unclosed sessions have ended, and only long sessions are open."""

    async def quiet() -> bool:
        return sum(device.sessions for device in await client.list_devices()) <= 2

    await _until(quiet)


async def _settled(front: int, before: Sequence[Census]) -> Census:
    """Returns the resources when closed sockets are gone, or after a second."""
    time = asyncio.get_running_loop().time
    end_s = time() + 1.0
    found = census(front)
    while before and found.descriptors > before[-1].descriptors and time() < end_s:
        await asyncio.sleep(0.05)
        found = census(front)
    return found


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(QUIET_S):
        while not await condition():  # noqa: ASYNC110  # the service changes it
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
