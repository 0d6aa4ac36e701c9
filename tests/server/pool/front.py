"""A front process for a test to kill: starts a device and tells its worker's process id."""

import asyncio

from opserve_server.pool.device import Device


async def main() -> None:
    device = Device(
        name="toy-0",
        profile="ascend910b",
        memory_bytes=1 << 20,
        slab_bytes=1 << 16,
        start_timeout_s=60,
        kernels={"fail": "server.pool.toy.fail"},
    )
    await device.start()
    print(device.worker_pid, flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
