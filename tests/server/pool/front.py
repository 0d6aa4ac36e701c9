"""A front process for a test to kill: starts a device, busy or idle, and tells its processes."""

import asyncio
import sys
from multiprocessing import forkserver, resource_tracker
from typing import Any

from server.pool.toys import run, toy_call, toy_device, until


async def main(operator: str, shares: tuple[int, ...]) -> None:
    device = toy_device(threads=2)
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    running = asyncio.create_task(run(device, toy_call(operator, slab, shares=shares)))
    await until(lambda: bool(slab.memory[0]))
    if operator == "count_units":
        await running
    server: Any = forkserver
    tracker: Any = resource_tracker
    fork_server = server._forkserver._forkserver_pid
    print(device.worker_pid, fork_server, tracker._resource_tracker._pid, flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], tuple(map(int, sys.argv[2:]))))
