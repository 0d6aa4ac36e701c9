"""Slots for whole calls: what one tenant sends does not hold up another's."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from opserve_server.core.accounts import Account, Accounts
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.fair_slots import FairSlots
from opserve_server.core.tenants import Tenant

MANY = 60
TASKS: set[asyncio.Task[None]] = set()


def account(name: str, weight: int = 1) -> Account:
    return Account(Tenant(name=name, weight=weight), Accounts().book)


def call(
    slots: FairSlots,
    account_of_call: Account,
    seconds: float,
    began: Callable[[], None] = lambda: None,
) -> asyncio.Task[None]:
    async def run() -> None:
        async with slots.slot(account_of_call):
            began()
            await asyncio.sleep(seconds)

    task = asyncio.create_task(run())
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    return task


async def ended() -> None:
    while TASKS:
        await asyncio.wait(TASKS)


async def test_a_call_of_another_tenant_begins_at_once_beside_many() -> None:
    slots = FairSlots(4, waiting_limit=MANY)
    lab, mill = account("lab"), account("mill")
    for _ in range(MANY):
        call(slots, lab, 1.0)
    await asyncio.sleep(0.5)
    began_s = asyncio.get_running_loop().time()
    await call(slots, mill, 0.25)
    assert asyncio.get_running_loop().time() - began_s == 0.25
    await ended()


async def test_with_one_slot_another_tenant_waits_for_one_call() -> None:
    slots = FairSlots(1, waiting_limit=MANY)
    lab, mill = account("lab"), account("mill")
    for _ in range(MANY):
        call(slots, lab, 1.0)
    await asyncio.sleep(0.5)
    began_s = asyncio.get_running_loop().time()
    await call(slots, mill, 0.25)
    assert asyncio.get_running_loop().time() - began_s == 0.75
    await ended()


@pytest.mark.parametrize("slot_count", [1, 4])
async def test_tenants_share_the_slots_by_weight(slot_count: int) -> None:
    slots = FairSlots(slot_count, waiting_limit=1000)
    began: list[str] = []
    for name, weight in (("light", 1), ("heavy", 3)):
        account_of_call = account(name, weight)
        for _ in range(200):
            call(slots, account_of_call, 1.0, lambda name=name: began.append(name))  # type: ignore[misc]  # mypy infers no type of a default
    await asyncio.sleep(100.5 / slot_count)
    assert began.count("heavy") == pytest.approx(0.75 * len(began), abs=4)
    for task in list(TASKS):
        task.cancel()
    await ended()


async def test_the_calls_of_one_tenant_keep_their_order() -> None:
    slots, lab = FairSlots(2, waiting_limit=MANY), account("lab")
    began: list[int] = []
    for number in range(9):
        call(slots, lab, 1.0, lambda number=number: began.append(number))  # type: ignore[misc]  # as above
    await ended()
    assert began == sorted(began)


async def test_calls_of_one_tenant_that_wait_are_bounded() -> None:
    slots, lab, mill = FairSlots(2, waiting_limit=3), account("lab"), account("mill")
    tasks = [call(slots, lab, 1.0) for _ in range(5)]
    await asyncio.sleep(0)
    assert [type(task.exception()) for task in tasks if task.done()] == [LimitExceeded]
    await call(slots, mill, 0.0)
    await ended()
    assert [task.exception() for task in tasks[:4]] == [None] * 4


async def test_refused_and_abandoned_calls_leave_the_queue_at_once() -> None:
    slots, lab = FairSlots(2, waiting_limit=3), account("lab")
    running, *waiting = (call(slots, lab, 1.0) for _ in range(3))
    await asyncio.sleep(0)
    for _ in range(20):
        abandoned, refused = (call(slots, lab, 1.0) for _ in range(2))
        await asyncio.sleep(0)
        assert isinstance(refused.exception(), LimitExceeded)
        abandoned.cancel()
        await asyncio.wait([abandoned])
        assert len(slots._queues["lab"].waiting) == len(waiting)
    await ended()
    assert [task.exception() for task in (running, *waiting)] == [None] * 3
    assert not slots._queues


async def test_slots_are_released_whenever_a_call_is_cancelled() -> None:
    slots, lab, mill = FairSlots(2, waiting_limit=MANY), account("lab"), account("mill")
    running, first, second = (call(slots, lab, 1.0) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    running.cancel()  # the slot goes to the second in the same iteration, unless it was removed
    for task in (first, running):
        with suppress(asyncio.CancelledError):
            await task
    second.cancel()
    await asyncio.sleep(0)
    began_s = asyncio.get_running_loop().time()
    await asyncio.gather(call(slots, lab, 1.0), call(slots, mill, 1.0))
    assert asyncio.get_running_loop().time() - began_s == 1.0
    assert not slots._queues
    assert not slots._fair_queue
