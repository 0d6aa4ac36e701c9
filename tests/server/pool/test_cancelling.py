"""Calls that are cancelled, against real workers that run toy kernels."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from opserve_server.pool.device import Device, KernelFailed, KernelTiming, WorkerDied
from opserve_server.pool.slabs import Slab
from server.pool.toys import ENDLESS, UNITS, kill_worker, run, toy_call, toy_device, until

pytestmark = pytest.mark.system


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    device = toy_device(threads=2, silence_limit_s=5)
    await device.start()
    yield device
    await device.stop()


@pytest.fixture
def slab(device: Device) -> Slab:
    slab = device.slabs.take(1)
    device.attach(slab)
    return slab


def begin(device: Device, slab: Slab, operator: str, *shares: int) -> "asyncio.Task[KernelTiming]":
    return asyncio.create_task(run(device, toy_call(operator, slab, shares=shares or (UNITS,))))


async def check_cancelled(call: "asyncio.Task[KernelTiming]") -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize(
    "shares", [(ENDLESS,), (ENDLESS, ENDLESS), (1, ENDLESS)], ids=["one", "two", "the second"]
)
async def test_a_running_call_is_stopped_in_all_its_threads_and_its_worker_survives(
    device: Device, slab: Slab, shares: tuple[int, ...]
) -> None:
    pid = device.worker_pid
    running = begin(device, slab, "work", *shares)
    await until(lambda: any(slab.memory[1:UNITS]))
    await check_cancelled(running)
    before = bytes(slab.memory[:UNITS])
    await begin(device, slab, "count_units")
    after = bytes(slab.memory[:UNITS])
    assert after == bytes((byte + 1) % 256 for byte in before), "it wrote after its end"
    assert device.worker_pid == pid


async def test_a_waiting_call_is_dropped_and_the_others_keep_their_order(
    device: Device, slab: Slab
) -> None:
    running = begin(device, slab, "work", ENDLESS)
    await until(lambda: any(slab.memory[:UNITS]))
    other = device.slabs.take(1)
    device.attach(other)
    dropped = begin(device, other, "count_units")
    kept = [begin(device, slab, "count_units") for _ in range(2)]
    await asyncio.sleep(0)
    await check_cancelled(dropped)
    assert not running.done()
    await check_cancelled(running)
    first, second = await asyncio.gather(*kept)
    assert not any(other.memory[:UNITS])
    assert first.end_ns <= second.start_ns


async def test_cancelling_twice_waits_for_the_worker_all_the_same(
    device: Device, slab: Slab
) -> None:
    assert device.worker_pid is not None
    call = begin(device, slab, "work", ENDLESS)
    await until(lambda: any(slab.memory[:UNITS]))
    os.kill(device.worker_pid, signal.SIGSTOP)
    for _ in range(3):
        call.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not call.done(), "its worker may still write"
    os.kill(device.worker_pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_cancelled_call_is_not_run_again_when_its_worker_dies(
    device: Device, slab: Slab
) -> None:
    assert device.worker_pid is not None
    call = begin(device, slab, "work", ENDLESS)
    behind = begin(device, slab, "count_units")
    await until(lambda: any(slab.memory[:UNITS]))
    os.kill(device.worker_pid, signal.SIGSTOP)
    call.cancel()
    await asyncio.sleep(0)
    kill_worker(device)
    with pytest.raises(asyncio.CancelledError):
        await call
    slab.memory[:UNITS] = bytes(UNITS)
    await behind
    assert bytes(slab.memory[:UNITS]) == b"\x01" * UNITS


async def test_a_call_is_cancelled_at_once_while_there_is_no_worker(
    device: Device, slab: Slab
) -> None:
    kill_worker(device)
    await until(lambda: not device.ready)
    call = begin(device, slab, "count_units")
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert not device.ready
    assert call.cancelled()
    other = device.slabs.take(1)
    device.attach(other)
    await begin(device, other, "count_units")
    assert not any(slab.memory[:UNITS])


async def test_cancelling_may_race_the_end_of_a_call(device: Device, slab: Slab) -> None:
    seed = random.randrange(2**32)  # noqa: S311  # no secret
    print(f"seed {seed}")  # noqa: T201
    moments = random.Random(seed)  # noqa: S311
    for _ in range(200):
        calls = [begin(device, slab, "count_units") for _ in range(3)]
        for _ in range(moments.randrange(60)):
            await asyncio.sleep(0)
        cancelled = calls[moments.randrange(3)]
        cancelled.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for call, outcome in zip(calls, outcomes, strict=True):
            allowed = (KernelTiming, asyncio.CancelledError) if call is cancelled else KernelTiming
            assert isinstance(outcome, allowed)
    assert not device._pending


async def test_a_call_that_ended_before_its_cancellation_keeps_its_result(
    device: Device, slab: Slab, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = device._end

    def end_and_cancel(*ended: Any) -> None:
        end(*ended)
        call.cancel()  # in the same iteration of the loop, before the waiter continues

    monkeypatch.setattr(device, "_end", end_and_cancel)
    call = begin(device, slab, "count_units")
    assert isinstance(await call, KernelTiming)
    assert bytes(slab.memory[:UNITS]) == b"\x01" * UNITS


async def test_a_cancelled_call_that_does_not_obey_takes_its_worker_along() -> None:
    device = toy_device(silence_limit_s=2)
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    pid = device.worker_pid
    call = begin(device, slab, "hang", 1)
    behind = begin(device, slab, "count_units")
    await until(lambda: bool(slab.memory[0]))
    await check_cancelled(call)
    await behind
    assert device.worker_pid != pid
    await device.stop()


async def test_a_call_that_runs_too_long_is_stopped_and_its_worker_survives() -> None:
    device = toy_device(call_time_limit_s=0.5)
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    pid = device.worker_pid
    endless = begin(device, slab, "work", ENDLESS)
    dropped = begin(device, slab, "count_units")
    behind = begin(device, slab, "count_units")
    await asyncio.sleep(0)
    await check_cancelled(dropped)
    with pytest.raises(KernelFailed, match=r"longer than 0\.5 s"):
        await endless
    await behind
    assert device.worker_pid == pid
    await device.stop()


async def test_a_call_that_runs_too_long_and_does_not_obey_is_not_run_again() -> None:
    device = toy_device(call_time_limit_s=1, silence_limit_s=3)
    await device.start()
    slab = device.slabs.take(1)
    device.attach(slab)
    pid = device.worker_pid
    endless = begin(device, slab, "hang", 1)
    behind = begin(device, slab, "count_units")
    with pytest.raises(KernelFailed, match=r"longer than 1 s"):
        await endless
    await behind
    assert slab.memory[0] == 2, "once by each"
    assert device.worker_pid != pid
    await device.stop()


async def test_a_stop_of_the_device_ends_what_is_being_cancelled(
    device: Device, slab: Slab
) -> None:
    assert device.worker_pid is not None
    call = begin(device, slab, "work", ENDLESS)
    await until(lambda: any(slab.memory[:UNITS]))
    call.cancel()
    await device.stop()
    with pytest.raises((asyncio.CancelledError, WorkerDied)):
        await call
