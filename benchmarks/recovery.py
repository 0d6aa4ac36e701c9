"""make bench-recovery: seconds until eight tenants recover after a kill of the front."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.report import console
from benchmarks.service_with_keys import new_store, store_url
from opserve_client import AsyncClient, AsyncSession, Im2colBackward
from opserve_client.private_service import PRIVATE_SETTINGS, Addresses
from opserve_server.core.tenants import Tenant

TENANTS = tuple(Tenant(name=f"tenant-{number}") for number in range(8))
ROUNDS = 3
CALLS_BEFORE = 3
"""Successful calls of each tenant before the front is killed."""
SMALL, LARGE = 64, 128
"""Edges of images: 32 KiB both ways in one Submit, 128 KiB by streams."""
SETTINGS = PRIVATE_SETTINGS | {
    "devices": '["ascend910b"]',
    "shared_memory": "false",  # tenants usually run on other machines
    "log_level": "ERROR",
}


@dataclass(slots=True)
class Caller:
    """A tenant that calls `session.run` without a pause.

    Attributes:
        calls: Successful calls so far.
        recovered_s: Time of the first successful call in the session that replaced the lost one.
        wrong: Number of results that are not exact.
    """

    name: str
    calls: int = 0
    recovered_s: float | None = None
    wrong: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    recovered: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, session: AsyncSession) -> None:
        """Calls until a new session has replaced the lost one and has answered."""
        first, loop = session.name, asyncio.get_running_loop()
        images = [_image(self.name, edge) for edge in (SMALL, LARGE)]
        while self.recovered_s is None:
            for image in images:
                out = (await session.run(copy_of(image))).out
                self.calls += 1
                self.wrong += not np.array_equal(out, image)
            if self.calls >= CALLS_BEFORE:
                self.enough.set()
            if session.name != first:
                self.recovered_s = loop.time()
        self.recovered.set()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    table = Table("tenant", *(f"round {number + 1}" for number in range(rounds)))
    table.title = "seconds from SIGKILL of the front to the next successful session.run"
    found = [asyncio.run(recovery_s()) for _ in range(rounds)]
    for name in found[0]:
        table.add_row(name, *(f"{of_round[name]:.2f}" for of_round in found))
    console().print(table)


async def recovery_s() -> Mapping[str, float]:
    """Returns the seconds from the kill to the next successful call, by tenant; half use HTTP.

    Raises:
        AssertionError: A result is wrong.
    """
    with TemporaryDirectory() as folder:
        url = store_url(Path(folder))
        keys = await new_store(url, TENANTS)
        process, addresses = await _started(store_url=url, no_keys="false")
        callers = [Caller(tenant.name) for tenant in TENANTS]
        try:
            async with asyncio.TaskGroup() as working:
                for place, caller in enumerate(callers):
                    address = addresses.rest if place % 2 else addresses.grpc
                    working.create_task(_calling(caller, address, keys[caller.name]))
                for caller in callers:
                    await caller.enough.wait()
                killed_s = asyncio.get_running_loop().time()
                process.kill()
                await process.wait()
                rest = addresses.rest.removeprefix("http://")
                process, _ = await _started(
                    store_url=url, no_keys="false", grpc_address=addresses.grpc, rest_address=rest
                )
        finally:
            process.kill()
            await process.wait()
    assert not any(caller.wrong for caller in callers), "a result was wrong"
    return {one.name: (one.recovered_s or 0.0) - killed_s for one in callers}


async def _calling(caller: Caller, address: str, key: str) -> None:
    async with AsyncClient(address, api_key=key) as client, client.open_session() as session:
        await caller.work(session)


async def _started(**settings: str) -> tuple[asyncio.subprocess.Process, Addresses]:
    chosen = SETTINGS | settings
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "opserve_server",
        env=os.environ | {f"OPSERVE_{name.upper()}": value for name, value in chosen.items()},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    return process, Addresses(grpc=ready["grpc"], rest=ready["rest"])


def _image(name: str, edge: int) -> "NDArray[np.float32]":
    random = np.random.default_rng(list(name.encode()))
    return random.standard_normal((1, edge, edge)).astype(np.float32)


def copy_of(image: "NDArray[np.float32]") -> Im2colBackward:
    """Returns a call whose result equals its input: blocks of one element."""
    channels, height, width = image.shape
    return Im2colBackward(
        grad_output=image.reshape(channels, height * width),
        input_size=[height, width],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )


if __name__ == "__main__":
    main()
