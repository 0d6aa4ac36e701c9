"""The processes of the conformance workers, and turns of tenants."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator

import pytest

from opserve_server.calls import malformed
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.errors import OpserveError, QuotaExceeded, Unavailable
from opserve_server.core.tenants import Resource


@pytest.fixture
async def workers() -> AsyncGenerator[ConformanceWorkers]:
    made = ConformanceWorkers(1)
    yield made
    await made.close()


async def test_a_task_runs_in_another_process(workers: ConformanceWorkers) -> None:
    assert await workers.do(os.getpid) != os.getpid()


async def test_a_process_that_ends_is_reported_and_replaced(workers: ConformanceWorkers) -> None:
    first = await workers.do(os.getpid)
    with pytest.raises(Unavailable, match="A process of the service ended"):
        await workers.do(signal.raise_signal, signal.SIGKILL)
    assert await workers.do(os.getpid) != first


async def test_a_process_that_ends_while_it_has_nothing_to_do_is_replaced(
    workers: ConformanceWorkers,
) -> None:
    await asyncio.to_thread(int)  # its thread is there before those of the processes
    others = set(threading.enumerate())
    first = await workers.do(os.getpid)
    (watching,) = (one for one in set(threading.enumerate()) - others if not one.daemon)
    os.kill(first, signal.SIGKILL)
    watching.join()
    assert await workers.do(os.getpid) != first


async def test_a_turn_that_waits_for_a_device_leaves_the_workers_to_others(
    workers: ConformanceWorkers,
) -> None:
    async with workers.turn("waits"), workers.turn("works"):
        assert await workers.do(int) == 0


async def test_tenants_take_turns_for_any_number_of_calls() -> None:
    workers, order, may_go = ConformanceWorkers(1), list[str](), asyncio.Event()

    async def call(tenant: str) -> None:
        async with workers.turn(tenant):
            await may_go.wait()
            order.append(tenant)

    calls = [asyncio.create_task(call("many")) for _ in range(5)]
    await asyncio.sleep(0)
    calls.append(asyncio.create_task(call("one")))
    await asyncio.sleep(0)
    may_go.set()
    await asyncio.gather(*calls)
    assert order == ["many", "one", "many", "many", "many", "many"]


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        malformed("seed", given=-1, allowed="0"),
        QuotaExceeded(
            Resource.SESSIONS, tenant="lab", limit=3.0, use=2.0, requested=1.0, retry_after_s=0.5
        ),
    ],
)
async def test_an_error_survives_a_round_trip(
    workers: ConformanceWorkers, error: OpserveError
) -> None:
    with pytest.raises(type(error)) as raised:
        await workers.do(fail, error)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))
