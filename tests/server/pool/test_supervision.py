"""Failures between a device and its workers, beyond a killed worker."""

import asyncio
import multiprocessing
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
import uvloop

from opserve_kernels.operator import PARAMETERS_LIMIT
from opserve_kernels.registry import kernels_of
from opserve_server.pool import device as device_module
from opserve_server.pool.device import Device, WorkerDied
from opserve_server.pool.messages import FrameError
from opserve_server.pool.process import preload
from opserve_server.pool.slabs import Slab
from server.pool.toys import (
    DEADLINE_S,
    TOYS,
    kill_worker,
    open_descriptors,
    run,
    toy_call,
    toy_device,
    until,
)

pytestmark = pytest.mark.system


@pytest.fixture
def kernels() -> dict[str, str]:
    return dict(TOYS)


@pytest.fixture
async def device(kernels: dict[str, str]) -> AsyncIterator[Device]:
    device = toy_device(kernels)
    await device.start()
    yield device
    await device.stop()


@pytest.fixture
def slab(device: Device) -> Slab:
    slab = device.slabs.take(1)
    device.attach(slab)
    return slab


async def test_a_call_that_fits_no_frame_is_refused_while_there_is_no_worker(
    device: Device, slab: Slab
) -> None:
    kill_worker(device)
    await until(lambda: not device.ready)
    call = toy_call("count_units", slab)
    for wrong in (
        replace(call, parameters=(0,) * (PARAMETERS_LIMIT + 1)),
        replace(call, parameters=(2**63,)),
        replace(call, operator="unknown"),
    ):
        with pytest.raises(FrameError):
            await run(device, wrong)
    await run(device, call)
    assert slab.memory[0] == 1


async def test_calls_that_were_done_are_not_blamed_for_a_death(device: Device, slab: Slab) -> None:
    slab.memory[0] = 255  # three counts make it 2: two deaths
    done = [asyncio.create_task(run(device, toy_call("count_units", slab))) for _ in range(3)]
    poison = asyncio.create_task(run(device, toy_call("die", slab, shares=(1,))))
    assert device.worker_pid is not None
    worker = os.pidfd_open(device.worker_pid)
    await asyncio.sleep(0)  # the calls are queued
    await asyncio.sleep(0)  # and sent
    behind = asyncio.create_task(run(device, toy_call("count_units", slab)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # sent in a packet that the dying worker does not read
    dead, _, _ = select.select([worker], [], [], DEADLINE_S)  # while the loop is blocked
    os.close(worker)
    assert dead
    await asyncio.gather(*done)
    with pytest.raises(WorkerDied):
        await poison
    await behind
    assert bytes(slab.memory[2:200]) == b"\x04" * 198, "each call ran once"


async def test_calls_fail_while_no_worker_can_be_started_and_run_when_one_can(
    device: Device, slab: Slab, kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "RESTART_DELAYS_S", (0.0, 0.0))
    kernels["fail"] = "server.pool.toy.not_there"
    kill_worker(device)
    await until(lambda: not device.ready)
    with pytest.raises(WorkerDied, match="no worker can be started"):
        await run(device, toy_call("count_units", slab))
    kernels["fail"] = TOYS["fail"]
    await until(lambda: device.ready)
    await run(device, toy_call("count_units", slab))
    assert slab.memory[0] == 1


async def test_a_process_that_cannot_be_started_is_tried_again(
    device: Device, slab: Slab, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [EOFError("planted"), OSError("planted"), RuntimeError("planted")]
    original = ForkServerProcess.start

    def start(self: ForkServerProcess) -> None:
        if errors:
            raise errors.pop()
        original(self)

    monkeypatch.setattr(ForkServerProcess, "start", start)
    kill_worker(device)
    await until(lambda: not errors and device.ready)
    await run(device, toy_call("count_units", slab))


async def test_a_worker_outlives_the_fork_server_and_the_next_one_gets_a_new_one(
    device: Device, slab: Slab
) -> None:
    pid = device.worker_pid
    status = Path(f"/proc/{pid}/status").read_text()
    fork_server = int(status.partition("PPid:")[2].split()[0])
    watch = os.pidfd_open(fork_server)
    os.kill(fork_server, signal.SIGKILL)
    dead, _, _ = select.select([watch], [], [], DEADLINE_S)
    os.close(watch)
    assert dead
    await run(device, toy_call("count_units", slab))
    assert device.worker_pid == pid, "a live worker was taken for dead"
    kill_worker(device)
    await run(device, toy_call("count_units", slab))
    assert slab.memory[0] == 2


async def test_a_call_outside_start_and_stop_is_refused(device: Device, slab: Slab) -> None:
    with pytest.raises(WorkerDied):
        await run(toy_device(), toy_call("count_units", slab))
    await device.stop()
    with pytest.raises(WorkerDied):
        await run(device, toy_call("count_units", slab))


async def test_a_device_stopped_while_it_replaces_its_worker_leaves_nothing_behind(
    device: Device,
) -> None:
    assert device.ready, "the fork server runs"
    descriptors = open_descriptors()
    processes = len(multiprocessing.active_children())
    other = toy_device()
    await other.start()
    kill_worker(other)
    await until(lambda: not other.ready)
    for _ in range(3):
        await asyncio.sleep(0)
    await other.stop()
    assert len(multiprocessing.active_children()) == processes
    assert not open_descriptors() - descriptors


async def test_a_first_worker_that_cannot_load_its_kernels_is_an_error_of_start() -> None:
    device = toy_device({"fail": "server.pool.toy.not_there"})
    with pytest.raises(WorkerDied):
        await device.start()
    await device.stop()


def test_a_killed_worker_is_replaced_under_uvloop() -> None:
    async def scenario() -> int:
        device = toy_device()
        await device.start()
        slab = device.slabs.take(1)
        device.attach(slab)
        slab.memory[0] = 1
        await run(device, toy_call("die", slab, shares=(1,)))
        answer = slab.memory[1]
        await device.stop()
        return answer

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == 42


def test_the_fork_server_starts_no_threads() -> None:
    program = (
        "import importlib, os, sys\n"
        f"for name in {preload(kernels_of('ascend910b').values())}: importlib.import_module(name)\n"
        "sys.exit(len(os.listdir('/proc/self/task')) - 1)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_workers_load_no_scipy() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {preload(kernels_of('ascend910b').values())}: importlib.import_module(name)\n"
        "sys.exit(any(name.startswith('scipy.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
