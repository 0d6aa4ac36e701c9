"""The end of a worker process, and its races."""

import asyncio
import os
import signal
from typing import Any

import pytest

from opserve_server.pool.device import WorkerDied
from opserve_server.pool.process import WorkerProcess
from server.pool.toys import TOYS, toy_device


async def test_a_worker_that_does_not_listen_has_ended_when_its_stop_returns() -> None:
    process = await WorkerProcess.start(
        "deaf", TOYS, threads=1, call_time_limit_s=50, on_message=lambda _: None
    )
    assert await process.ready
    os.kill(process.pid, signal.SIGSTOP)
    await process.stop(grace_s=0)
    assert process._exited.done()
    assert process.dead.done()


async def test_a_device_that_is_stopped_just_as_its_worker_is_ready_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = WorkerProcess.start

    async def start_until_ready(*given: Any, **named: Any) -> WorkerProcess:
        process = await start(*given, **named)
        assert await process.ready
        return process

    monkeypatch.setattr(WorkerProcess, "start", start_until_ready)
    device = toy_device()
    starting = asyncio.create_task(device.start())
    await asyncio.sleep(0)
    await device.stop()
    with pytest.raises(WorkerDied, match="the device is stopped"):
        await starting


async def test_a_device_that_is_stopped_while_its_worker_starts_raises() -> None:
    device = toy_device()
    starting = asyncio.create_task(device.start())
    await asyncio.sleep(0)
    await device.stop()
    with pytest.raises(WorkerDied, match="the device is stopped"):
        await starting
