"""make soak: mixed traffic of several tenants, its failures, and growth of the service."""

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import astuple

import numpy as np
from rich.markup import escape
from rich.table import Table

from benchmarks.census import COUNTED, Census, census, children_of
from benchmarks.report import Goal, console, short, show_goals, write_goals
from benchmarks.service_with_keys import ServiceWithKeys, service_with_keys
from benchmarks.soak_tenants import Load, Tally
from opserve_client import AsyncClient, AsyncSession
from opserve_server.core.tenants import Tenant

MINUTES = 30.0
ROUND_S = 2.0
TENANTS = [Tenant(name=f"tenant-{number}") for number in range(3)]
"""Tenants, each with short sessions over both APIs; the first one has long sessions, too."""
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
    samples, tally = soak(seconds=given.minutes * 60, seed=given.seed)
    goals = [*judged(samples), failures(tally)]
    show(samples, seed=given.seed)
    show_calls(tally)
    show_goals(goals)
    write_goals("soak", goals)
    passed = all(goal.met for goal in goals)
    console().print("PASS" if passed else "FAIL")
    return 0 if passed else 1


def soak(*, seconds: float, seed: int) -> tuple[list[Census], Tally]:
    """Returns the resources of a service after each round, without sessions; and all calls."""
    others = set(children_of(os.getpid()))  # services of other tests in this process
    with service_with_keys(TENANTS, **SETTINGS) as service:
        front = next(child for child in children_of(os.getpid()) if child not in others)
        tally = Tally()
        return asyncio.run(_rounds(service, front, tally, seconds=seconds, seed=seed)), tally


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


def failures(tally: Tally) -> Goal:
    """Returns the goal that every failure has a reason."""
    count = tally.unexplained.total()
    return Goal(goal="unexplained failures", value=count, target=0.0, better="lower")


def slope(values: Sequence[float]) -> float:
    """Returns the growth from one value to the next, by least squares."""
    return float(np.polyfit(np.arange(len(values)), np.asarray(values), 1)[0])


def show(samples: Sequence[Census], *, seed: int) -> None:
    table = Table("round", *COUNTED, title=f"soak, seed {seed}: resources between rounds")
    step = max(len(samples) // 10, 1)
    for number in range(0, len(samples), step):
        table.add_row(str(number), *map(short, astuple(samples[number])))
    console().print(table)


def show_calls(tally: Tally) -> None:
    calls = Table("calls", "number", title=f"{tally.calls.total():,} calls by kind")
    for kind, number in sorted(tally.calls.items()):
        calls.add_row(kind, f"{number:,}")
    console().print(calls)
    failed = Table("calls", "failure", "number", "explained", title="failures by reason")
    for found, explained in ((tally.explained, "yes"), (tally.unexplained, "[red]no[/]")):
        for (kind, reason), number in sorted(found.items()):
            failed.add_row(kind, escape(reason), f"{number:,}", explained)
    console().print(failed)


async def _rounds(
    service: ServiceWithKeys, front: int, tally: Tally, *, seconds: float, seed: int
) -> list[Census]:
    time = asyncio.get_running_loop().time
    end_s = time() + seconds
    samples: list[Census] = []
    apis = {"gRPC": service.addresses.grpc, "HTTP": service.addresses.rest}
    loads = [
        Load(api=api, address=address, http=service.addresses.rest, api_key=key, tally=tally)
        for key in service.keys.values()
        for api, address in apis.items()
    ]
    async with AsyncExitStack() as stack:
        staying: list[tuple[Load, AsyncSession]] = []
        clients: list[AsyncClient] = []
        for load in loads[: len(apis)]:
            client = AsyncClient(load.address, api_key=load.api_key)
            clients.append(await stack.enter_async_context(client))
            session = await stack.enter_async_context(client.open_session())
            staying.append((load, session))
        while time() < end_s:
            await _round(loads, staying, seed=seed + 1000 * len(samples))
            await _until_quiet(clients[0], len(staying))
            samples.append(await _settled(front, samples[-1:]))
    return samples


async def _round(
    loads: Sequence[Load], staying: Sequence[tuple[Load, AsyncSession]], *, seed: int
) -> None:
    until_s = asyncio.get_running_loop().time() + ROUND_S
    async with asyncio.TaskGroup() as tenants:
        for number, (load, session) in enumerate(staying):
            working = load.in_long_session(session, seed=seed + number, until_s=until_s)
            tenants.create_task(working)
        for number, load in enumerate(loads):
            working = load.in_short_sessions(seed=seed + 100 + number, until_s=until_s)
            tenants.create_task(working)


async def _until_quiet(client: AsyncClient, staying: int) -> None:
    """Waits until the leases of unclosed sessions have ended, and only long sessions are open."""

    async def quiet() -> bool:
        return sum(device.sessions for device in await client.list_devices()) <= staying

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
