"""The device against real workers that run toy kernels."""

import asyncio
import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opserve_server.pool.device import Device, KernelFailed, WorkerDied
from opserve_server.pool.slabs import Slab
from server.pool.toys import (
    DEADLINE_S,
    ENDLESS,
    UNITS,
    kill_worker,
    open_descriptors,
    run,
    toy_call,
    toy_device,
)

pytestmark = pytest.mark.system


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    device = toy_device()
    await device.start()
    yield device
    await device.stop()


@pytest.fixture
def slab(device: Device) -> Slab:
    slab = device.slabs.take(1)
    device.attach(slab)
    return slab


async def test_every_unit_runs_once_in_memory_that_both_sides_see(
    device: Device, slab: Slab
) -> None:
    timing = await run(device, toy_call("count_units", slab))
    assert bytes(slab.memory[:UNITS]) == b"\x01" * UNITS
    assert bytes(slab.memory[UNITS:521]) == bytes(512 - UNITS) + b"\x07" * 8 + b"\0"
    assert timing.start_ns <= timing.end_ns


async def test_shares_run_at_the_same_time_and_every_unit_of_them_once() -> None:
    device = toy_device(threads=2)
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    await run(device, toy_call("meet", slab, shares=(1, 1)))
    await run(device, toy_call("count_units", slab, shares=(50, 0, UNITS - 50)))
    assert bytes(slab.memory[:UNITS]) == b"\x01" * UNITS
    with pytest.raises(KernelFailed):
        await run(device, toy_call("fail", slab, shares=(1, 1)))
    await run(device, toy_call("count_units", slab, shares=(UNITS, 0)))
    assert bytes(slab.memory[:UNITS]) == b"\x02" * UNITS
    await device.stop()


async def test_a_failed_kernel_reveals_nothing_else(device: Device, slab: Slab) -> None:
    with pytest.raises(KernelFailed) as failure:
        await run(device, toy_call("fail", slab))
    assert "secret" not in str(failure.value)
    await run(device, toy_call("count_units", slab))


async def test_calls_in_flight_survive_a_killed_worker(device: Device, slab: Slab) -> None:
    slab.memory[0] = 1
    dying = asyncio.create_task(run(device, toy_call("die", slab, shares=(1,))))
    behind = [asyncio.create_task(run(device, toy_call("count_units", slab))) for _ in range(3)]
    await asyncio.gather(dying, *behind)
    assert slab.memory[1] == 45, "42 by the call that died once, then one for each behind it"
    assert bytes(slab.memory[2:UNITS]) == b"\x03" * (UNITS - 2)


async def test_a_call_that_kills_two_workers_is_given_up_and_the_next_one_runs(
    device: Device, slab: Slab
) -> None:
    slab.memory[0] = 2
    poison = asyncio.create_task(run(device, toy_call("die", slab, shares=(1,))))
    behind = asyncio.create_task(run(device, toy_call("count_units", slab)))
    with pytest.raises(WorkerDied):
        await poison
    await behind
    assert slab.memory[1] == 1


async def test_a_worker_killed_while_idle_is_replaced(device: Device, slab: Slab) -> None:
    assert device.worker_pid is not None
    os.kill(device.worker_pid, signal.SIGKILL)
    await run(device, toy_call("count_units", slab))
    assert device.ready
    assert slab.memory[0] == 1


async def test_a_detached_slab_is_unmapped_by_the_worker(device: Device, slab: Slab) -> None:
    await run(device, toy_call("count_units", slab))
    maps = Path(f"/proc/{device.worker_pid}/maps")
    assert "opserve-slab" in maps.read_text()
    device.detach(slab)
    other = device.slabs.take(1)
    device.attach(other)
    await run(device, toy_call("count_units", other))
    assert maps.read_text().count("opserve-slab") == 1


async def test_a_slab_without_a_descriptor_for_its_way_is_refused_and_the_worker_lives(
    device: Device, slab: Slab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dup(_: int) -> int:
        raise OSError(errno.EMFILE, "planted")

    other = device.slabs.take(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", dup)
        with pytest.raises(OSError, match="planted"):
            device.attach(other)
    await run(device, toy_call("count_units", slab))
    assert device.restarts == 0
    kill_worker(device)  # the next worker receives all slabs but this one
    with pytest.raises(KernelFailed, match="out of memory"):
        await run(device, toy_call("count_units", other))


async def test_a_stopped_device_leaves_nothing_behind(device: Device) -> None:
    descriptors = open_descriptors()
    device = toy_device()
    await device.start()
    pid = device.worker_pid
    slab = device.slabs.take(1)
    device.attach(slab)
    await run(device, toy_call("count_units", slab))
    device.detach(slab)
    device.slabs.give_back(slab)
    await device.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not open_descriptors() - descriptors


def test_nothing_is_left_of_a_front_that_is_killed() -> None:
    calls = {
        "an idle worker": f"count_units {UNITS}",
        "a busy worker": f"work {ENDLESS}",
        "a worker whose second thread is busy": f"work 1 {ENDLESS}",
        "a worker that hangs": "hang 1",
        "a worker whose second thread hangs": "hang 0 1",
    }
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("front.py"), *calls.values()],
        stdout=subprocess.PIPE,
        env=environment,
    ) as front:
        assert front.stdout is not None
        left = [os.pidfd_open(int(pid)) for pid in front.stdout.readline().split()]
        front.kill()
    names = [*calls, "the fork server", "the resource tracker"]
    for name, process in zip(names, left, strict=True):
        ended, _, _ = select.select([process], [], [], DEADLINE_S)
        os.close(process)
        assert ended, f"{name} outlived the front"


def test_the_front_never_imports_numba() -> None:
    program = "import sys, opserve_server.pool.device; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
