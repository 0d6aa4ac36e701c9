"""Flows of several tenants at one real worker: shares of time, and effects of a pause."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from opserve_kernels.operator import PlanOptions
from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, kernels_of
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.pool.device import Device, KernelFailed, KernelTiming, WorkerDied
from opserve_server.pool.messages import Flow, KernelCall, Region
from opserve_server.pool.slabs import Slab
from server.pool.toys import ENDLESS, UNITS, run, toy_call, toy_device, until

pytestmark = pytest.mark.system

NS_PER_S = 1_000_000_000
ONE, OTHER = Flow(1, 1), Flow(2, 1)


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    device = toy_device(threads=2)
    await device.start()
    yield device
    await device.stop()


@pytest.fixture
def slabs(device: Device) -> tuple[Slab, Slab]:
    slabs = device.slabs.take(1), device.slabs.take(1)
    for slab in slabs:
        device.attach(slab)
    return slabs


def begin(
    device: Device, call: KernelCall, flow: Flow, used: Callable[[int], None]
) -> "asyncio.Task[KernelTiming]":
    return asyncio.create_task(run(device, call, flow=flow, used=used))


async def test_a_call_that_pauses_for_others_reports_its_own_time_and_runs_each_unit_once(
    device: Device, slabs: tuple[Slab, Slab]
) -> None:
    used: list[int] = []
    calls = [
        begin(device, toy_call("work", slab, shares=(UNITS, UNITS)), flow, used.append)
        for slab, flow in zip(slabs, (ONE, OTHER), strict=True)
    ]
    timings = await asyncio.gather(*calls)
    for slab in slabs:
        assert bytes(slab.memory[:UNITS]) == b"\x02" * UNITS
    first_ns = min(timing.start_ns for timing in timings)
    last_ns = max(timing.end_ns for timing in timings)
    assert sum(timing.kernel_ns for timing in timings) <= last_ns - first_ns
    assert max(timing.start_ns for timing in timings) < min(timing.end_ns for timing in timings)
    for timing in timings:
        assert UNITS * 1_000_000 <= timing.kernel_ns < timing.end_ns - timing.start_ns
    assert sorted(used) == sorted(timing.kernel_ns for timing in timings)


async def test_a_call_of_another_tenant_does_not_wait_for_an_endless_one(
    device: Device, slabs: tuple[Slab, Slab]
) -> None:
    used: list[int] = []
    endless = begin(device, toy_call("work", slabs[0], shares=(ENDLESS, ENDLESS)), ONE, used.append)
    for _ in range(20):
        await run(device, toy_call("count_units", slabs[1]), flow=OTHER)
    assert not endless.done()
    assert not used
    endless.cancel()
    await asyncio.wait([endless])
    assert used[0] > 0, "what is stopped is paid for"


async def test_a_call_that_pauses_is_cancelled_and_writes_no_more(
    device: Device, slabs: tuple[Slab, Slab]
) -> None:
    used: list[int] = []
    rare = Flow(1, 1)
    paused = begin(device, toy_call("work", slabs[0], shares=(ENDLESS,)), rare, used.append)
    await until(lambda: bool(slabs[0].memory[0]))
    often = begin(device, toy_call("work", slabs[1], shares=(ENDLESS,)), Flow(2, 1000), used.append)
    await until(lambda: slabs[1].memory[50] > 0)
    paused.cancel()
    await asyncio.wait([paused])
    before = bytes(slabs[0].memory[:UNITS])
    often.cancel()
    await asyncio.wait([often])
    assert bytes(slabs[0].memory[:UNITS]) == before
    assert len(used) == 2


async def test_only_the_call_that_kills_workers_is_blamed_and_others_run_again(
    device: Device, slabs: tuple[Slab, Slab]
) -> None:
    victim = begin(device, toy_call("work", slabs[0], shares=(UNITS,)), ONE, lambda _: None)
    behind = begin(device, toy_call("count_units", slabs[0]), ONE, lambda _: None)
    await until(lambda: bool(slabs[0].memory[0]))
    slabs[1].memory[0] = 2
    poison = begin(device, toy_call("die", slabs[1], shares=(1,)), OTHER, lambda _: None)
    with pytest.raises(WorkerDied, match="2 workers died under it"):
        await poison
    await asyncio.gather(victim, behind)
    assert slabs[0].memory[UNITS - 1] >= 2
    assert device.restarts == 2


async def test_device_time_counts_towards_the_limit_and_pauses_do_not() -> None:
    limit_s, flows = 1.0, 10
    device = toy_device(call_time_limit_s=limit_s)
    await device.start()
    slabs = [device.slabs.take(1) for _ in range(flows)]
    for slab in slabs:
        device.attach(slab)
    used: list[int] = []
    calls = [
        begin(device, toy_call("work", slab, shares=(units,)), Flow(number, 1), used.append)
        for number, (slab, units) in enumerate(zip(slabs, [ENDLESS] + [UNITS] * 9, strict=True), 1)
    ]
    endless, *others = await asyncio.gather(*calls, return_exceptions=True)
    kept = [timing for timing in others if isinstance(timing, KernelTiming)]
    assert len(kept) == flows - 1
    assert max(timing.end_ns - timing.start_ns for timing in kept) > limit_s * NS_PER_S
    assert isinstance(endless, KernelFailed)
    assert "longer than 1 s" in str(endless)
    assert max(used) > limit_s * NS_PER_S, "what ran too long is paid for"
    await device.stop()


def fold() -> tuple[Im2colBackward, int, int]:
    """A call of some milliseconds, and the bytes of its columns and its image."""
    channels, side = 128, 96
    columns = Tensor(shape=(channels * 9, side * side), dtype=DataType.FLOAT, buffer=1)
    image = Tensor(shape=(channels, side, side), dtype=DataType.FLOAT, buffer=2)
    call = Im2colBackward(
        grad_output=columns,
        input_size=(side, side),
        kernel_size=(3, 3),
        dilation=(1, 1),
        padding=(1, 1),
        stride=(1, 1),
        out=image,
    )
    return call, 4 * columns.element_count, 4 * image.element_count


def fold_calls(slab: Slab, count: int) -> list[KernelCall]:
    """The same call some times, each with a result and a workspace of its own."""
    arguments, columns_bytes, image_bytes = fold()
    plan = OPERATORS["im2col_backward"].plan(arguments, PROFILES["ascend910b"], PlanOptions())
    each_bytes = image_bytes + plan.workspace_size
    slab.memory[:columns_bytes] = os.urandom(columns_bytes)
    calls: list[KernelCall] = []
    for place in range(columns_bytes, columns_bytes + count * each_bytes, each_bytes):
        workspace = Region(slab.id, place + image_bytes, plan.workspace_size)
        call = KernelCall(
            operator="im2col_backward",
            shares=plan.shares,
            parameters=plan.parameters,
            tensors=(Region(slab.id, 0, columns_bytes), Region(slab.id, place, image_bytes)),
            workspace=workspace if plan.workspace_size else None,
        )
        calls.append(call)
    return calls


def result(slab: Slab, call: KernelCall) -> bytes:
    image = call.tensors[1]
    assert image is not None
    return bytes(slab.memory[image.offset : image.offset + image.size_bytes])


async def test_two_weights_get_their_shares_of_measured_time_and_the_bits_of_being_alone() -> None:
    device = toy_device(kernels_of("ascend910b"), memory_bytes=1 << 27, slab_bytes=1 << 27)
    await device.start()
    slab = device.slabs.take(1 << 27)
    device.attach(slab)
    lone, *calls = fold_calls(slab, 3)
    await run(device, lone)
    used: list[tuple[int, int]] = []  # weight and measured time, in the order of the calls' ends

    def note(weight: int, used_ns: int) -> None:
        used.append((weight, used_ns))

    light, heavy = (  # all at the worker at once, so that none waits for the front
        [begin(device, call, Flow(weight, weight), partial(note, weight)) for _ in range(count)]
        for call, weight, count in zip(calls, (1, 3), (60, 120), strict=True)
    )
    await asyncio.wait([*light, *heavy])
    while sum(weight == 3 for weight, _ in used) > 90:  # both have calls until then
        used.pop()
    by_weight = [sum(ns for weight, ns in used if weight == one) for one in (1, 3)]
    # The queue learns of a call's time at its end, so that it is wrong by a call of each flow.
    longest_ns = max(ns for _, ns in used)
    assert abs(by_weight[0] - by_weight[1] / 3) <= 2 * longest_ns
    assert len(used) < 90 + len(light)
    await asyncio.gather(*light, *heavy)
    assert {result(slab, call) for call in calls} == {result(slab, lone)}
    await device.stop()
