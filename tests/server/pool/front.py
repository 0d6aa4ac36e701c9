"""A front process for a test to kill: a device for each call, busy or idle; prints its pids."""

import asyncio
import sys
from multiprocessing import forkserver, resource_tracker
from typing import Any

from opserve_server.pool.device import Device
from server.pool.toys import run, toy_call, toy_device, until


async def main(calls: list[str]) -> None:
    devices = [toy_device(threads=2) for _ in calls]
    for device in devices:
        await device.start()
    running = [
        await begun(device, *call.split()) for device, call in zip(devices, calls, strict=True)
    ]
    server: Any = forkserver
    tracker: Any = resource_tracker
    workers = [device.worker_pid for device in devices]
    pids = *workers, server._forkserver._forkserver_pid, tracker._resource_tracker._pid
    print(*pids, flush=True)  # noqa: T201
    await asyncio.gather(*running)


async def begun(device: Device, operator: str, *shares: str) -> "asyncio.Task[Any]":
    """A call that the device runs, or has run where it counts units."""
    slab = device.slabs.take(1)
    device.attach(slab)
    call = toy_call(operator, slab, shares=tuple(map(int, shares)))
    running = asyncio.create_task(run(device, call))
    await until(lambda: bool(slab.memory[0]))
    if operator == "count_units":
        await running
    return running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
