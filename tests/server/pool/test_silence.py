"""Workers without a heartbeat, or without memory."""

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from opserve_server.pool import device as device_module
from opserve_server.pool.device import Device, KernelFailed, WorkerDied
from opserve_server.pool.process import WorkerProcess
from opserve_server.pool.slabs import Slab
from server.pool.toys import TOYS, kill_worker, run, toy_call, toy_device, until

pytestmark = pytest.mark.system


def slab_of(device: Device) -> Slab:
    slab = device.slabs.take(1)
    device.attach(slab)
    return slab


async def test_an_idle_worker_that_is_stopped_is_not_ready_and_then_replaced() -> None:
    device = toy_device(silence_limit_s=1)
    await device.start()
    pid = device.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: not device.ready)
    assert device.worker_pid == pid, "it had its time to answer"
    await until(lambda: device.ready)
    assert device.worker_pid != pid
    await device.stop()


async def test_a_worker_that_recovers_in_time_is_kept() -> None:
    device = toy_device(silence_limit_s=10)
    await device.start()
    pid = device.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: not device.ready)
    os.kill(pid, signal.SIGCONT)
    await until(lambda: device.ready)
    assert device.worker_pid == pid
    await device.stop()


async def test_a_worker_sends_heartbeats_while_it_runs_a_call() -> None:
    device = toy_device(silence_limit_s=1, threads=2)
    await device.start()
    slab = slab_of(device)
    pid = device.worker_pid
    await run(device, toy_call("work", slab, shares=(1, 2000)))
    assert device.worker_pid == pid
    await device.stop()


async def test_a_worker_whose_end_the_loop_has_not_seen_yet_is_killed_without_an_error() -> None:
    device = toy_device()
    await device.start()
    ended = device._worker
    assert ended is not None
    os.kill(ended.pid, signal.SIGKILL)
    while Path(f"/proc/{ended.pid}").exists():  # the loop is blocked meanwhile
        os.sched_yield()
    ended.kill()
    await until(lambda: device.worker_pid not in (None, ended.pid))
    await run(device, toy_call("count_units", slab_of(device)))
    await device.stop()


async def test_calls_of_a_device_that_a_bug_ends_end_as_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = toy_device()
    await device.start()
    hanging = asyncio.create_task(run(device, toy_call("hang", slab_of(device), shares=(1,))))
    stopped = WorkerProcess.stop

    async def stop(worker: WorkerProcess, *, grace_s: float) -> None:
        await stopped(worker, grace_s=grace_s)
        raise LookupError("planted")

    await asyncio.sleep(0)
    monkeypatch.setattr(WorkerProcess, "stop", stop)
    kill_worker(device)
    with pytest.raises(WorkerDied, match="the device is stopped"):
        await hanging
    assert not device.ready
    assert "toy-0: the device ended with an internal error" in caplog.text
    with pytest.raises(WorkerDied, match="not started, or stopped"):
        await run(device, toy_call("count_units", slab_of(device)))
    await device.stop()


async def test_a_kernel_that_hangs_twice_is_given_up_and_the_next_call_runs() -> None:
    device = toy_device(silence_limit_s=2)
    await device.start()
    slab = slab_of(device)
    hanging = asyncio.create_task(run(device, toy_call("hang", slab, shares=(1,))))
    behind = asyncio.create_task(run(device, toy_call("count_units", slab)))
    with pytest.raises(WorkerDied, match="2 workers died under it"):
        await hanging
    await behind
    assert slab.memory[0] == 3, "it hung twice and was counted once"
    await device.stop()


async def test_a_call_without_memory_fails_by_name_and_its_worker_survives() -> None:
    device = toy_device()
    await device.start()
    slab = slab_of(device)
    pid = device.worker_pid
    with pytest.raises(KernelFailed, match="out of memory"):
        await run(device, toy_call("allocate", slab))
    await run(device, toy_call("count_units", slab))
    assert device.worker_pid == pid
    await device.stop()


async def test_a_slab_that_cannot_be_mapped_fails_its_calls_alone() -> None:
    device = toy_device()
    await device.start()
    slab = slab_of(device)
    await run(device, toy_call("count_units", slab))
    pid = device.worker_pid
    assert pid is not None
    limits = resource.prlimit(pid, resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
    other = slab_of(device)
    with pytest.raises(KernelFailed, match="out of memory"):
        await run(device, toy_call("count_units", other))
    resource.prlimit(pid, resource.RLIMIT_AS, limits)
    await run(device, toy_call("count_units", slab))
    assert (slab.memory[0], other.memory[0]) == (2, 0)
    assert device.worker_pid == pid
    await device.stop()


async def test_calls_are_refused_at_once_while_no_worker_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_module, "RESTART_DELAYS_S", (0.0, 1000.0))
    kernels = dict(TOYS)
    device = toy_device(kernels)
    await device.start()
    slab = slab_of(device)
    kernels["fail"] = "server.pool.toy.not_there"
    kill_worker(device)
    await until(lambda: not device.ready)
    await until(lambda: device._quarantined)
    async with asyncio.timeout(300):
        with pytest.raises(WorkerDied, match="no worker can be started"):
            await run(device, toy_call("count_units", slab))
    assert not device.ready
    await device.stop()
