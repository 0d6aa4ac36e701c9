"""A front process for a test to kill: starts a device, busy or idle, and tells its worker's id."""

import asyncio
import sys

from server.pool.toys import UNITS, toy_call, toy_device


async def main(shares: tuple[int, ...]) -> None:
    device = toy_device(threads=len(shares))
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    running = asyncio.create_task(device.run(toy_call("work", slab, shares=shares)))
    while not slab.memory[UNITS - 1]:  # noqa: ASYNC110  # another process sets it
        await asyncio.sleep(0)
    print(device.worker_pid, flush=True)  # noqa: T201
    await asyncio.wait([running])
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(tuple(map(int, sys.argv[1:]))))
