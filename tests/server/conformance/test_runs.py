"""Stored results of a run that is stopped while the store is slow."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import cast
from unittest import mock

import pytest

from kernels.cases.suites import smoke
from opserve_kernels.conformance.expected import Task
from opserve_kernels.conformance.record import CaseResult
from opserve_kernels.status import Status
from opserve_kernels.verdict.verdict import Status as Verdict
from opserve_server.calls import malformed
from opserve_server.conformance.answers import OneRun
from opserve_server.conformance.calls import CancelRun, GetRun, RunSuite
from opserve_server.conformance.reference import ReferenceDevice
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.conformance.tasks import Part
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.runs import Run
from opserve_server.core.service import Service
from opserve_server.store.runs import Runs
from server.conformance_service import LIMITS

pytestmark = pytest.mark.usefixtures("at_work")
CASES = 3


class SlowStore:
    """Keeps runs, in transactions that wait until each may end."""

    def __init__(self) -> None:
        self.asked, self.may_end = asyncio.Semaphore(0), asyncio.Semaphore(0)
        self.begins, self.may_begin = asyncio.Event(), asyncio.Event()
        self.places = list[int]()
        self.state = ""

    async def begin(self, *_: Run, **__: int) -> None:
        """Takes any run."""
        self.begins.set()
        await self.may_begin.wait()

    async def add(self, run: Run, results: Sequence[tuple[int, CaseResult]]) -> None:
        """Keeps results and state, or nothing."""
        rows = [place for place, _ in results]
        self.asked.release()
        await self.may_end.acquire()
        self.places += rows
        self.state = run.state

    async def get(self, tenant: str, run: str) -> Run:
        """The one of a name."""
        return Run(
            id=run,
            tenant=tenant,
            target="mine",
            suite="smoke",
            seed=0,
            counts={},
            created_at=0.0,
            seen_at=0.0,
        )


class OneWorker:
    """Admits every run, and then makes a suite of a few cases, each on a signal of the test."""

    def __init__(self) -> None:
        self.may_begin, self.asked, self.may_end = (asyncio.Event() for _ in range(3))

    @asynccontextmanager
    async def turn(self, _: str) -> AsyncGenerator[None]:
        """One for all."""
        await self.may_begin.wait()
        yield

    async def do(self, *_: object) -> Part:
        """All cases."""
        self.asked.set()
        await self.may_end.wait()
        return Part(cases=smoke(0).cases[:CASES], total=CASES, digest="")


def runs_in(store: SlowStore, workers: OneWorker) -> SuiteRuns:
    """Runs without devices."""
    service = mock.Mock(spec=Service, draining=False)
    service.open_session.side_effect = malformed("profile", given="this", allowed="none")
    clock = count()  # a second passes between two looks, so each result is written alone
    return SuiteRuns(
        service,
        cast("ConformanceWorkers", workers),
        ReferenceDevice(service, LIMITS),
        cast("Runs", store),
        runs_limit=1,
        kept_limit=1,
        clock=lambda: float(next(clock)),
    )


async def made(store: SlowStore, workers: OneWorker) -> tuple[SuiteRuns, str]:
    """A run without devices."""
    runs = runs_in(store, workers)
    store.may_begin.set()
    answer = await runs.run(RunSuite(suite="smoke", target="mine"))
    assert isinstance(answer, OneRun)
    return runs, answer.run.id


async def begun(store: SlowStore) -> tuple[SuiteRuns, CancelRun]:
    """A run whose first result is being stored."""
    workers = OneWorker()
    workers.may_begin.set()
    workers.may_end.set()
    runs, run = await made(store, workers)
    await store.asked.acquire()
    return runs, CancelRun(run=run)


async def test_a_result_that_is_being_written_when_the_run_ends_is_kept_once() -> None:
    store = SlowStore()
    runs, cancel = await begun(store)
    cancelling = asyncio.create_task(runs.run(cancel))
    await asyncio.sleep(0)
    store.may_end.release()
    store.may_end.release()
    await cancelling
    assert (store.places, store.state) == ([0], "CANCELLED")


@pytest.mark.parametrize("last", ["CancelRun", "stop"])
async def test_the_end_of_a_run_is_kept_though_it_is_ended_twice(last: str) -> None:
    store = SlowStore()
    runs, cancel = await begun(store)
    first = asyncio.create_task(runs.run(cancel))
    await asyncio.sleep(0)
    store.may_end.release()
    await store.asked.acquire()  # that of its end
    second = asyncio.create_task(runs.stop() if last == "stop" else _cancelled(runs, cancel))
    await asyncio.sleep(0)
    store.may_end.release()
    await asyncio.gather(first, second)
    assert store.state == "CANCELLED"


async def _cancelled(runs: SuiteRuns, cancel: CancelRun) -> None:
    await runs.run(cancel)


async def test_a_run_that_is_stopped_before_it_is_stored_ends() -> None:
    store = SlowStore()
    runs = runs_in(store, OneWorker())
    requests = asyncio.create_task(runs.run(RunSuite(suite="smoke", target="mine")))
    await store.begins.wait()
    stopping = asyncio.create_task(runs.stop())
    await asyncio.sleep(0)
    store.may_begin.set()
    store.may_end.release()
    await asyncio.gather(requests, stopping)
    assert (store.places, store.state) == ([], "INTERRUPTED")


async def test_concurrently_requested_runs_count_each_other() -> None:
    store = SlowStore()
    runs = runs_in(store, OneWorker())
    asked = RunSuite(suite="smoke", target="mine")
    requests = [asyncio.create_task(runs.run(asked)) for _ in range(2)]
    await store.begins.wait()
    store.may_begin.set()
    store.may_end.release()
    found = await asyncio.gather(*requests, return_exceptions=True)
    await runs.stop()
    assert [type(one) for one in found] == [OneRun, LimitExceeded]


async def test_a_run_continues_although_its_caller_disconnects_while_it_is_stored() -> None:
    store, workers = SlowStore(), OneWorker()
    workers.may_begin.set()
    workers.may_end.set()
    runs = runs_in(store, workers)
    requests = asyncio.create_task(runs.run(RunSuite(suite="smoke", target="mine")))
    await store.begins.wait()
    requests.cancel()
    store.may_begin.set()
    for _ in range(CASES + 1):
        await store.asked.acquire()
        store.may_end.release()
    await runs.stop()
    assert requests.cancelled()
    assert (store.places, store.state) == (list(range(CASES)), "ENDED")


async def test_a_run_reports_its_progress() -> None:
    store, workers = SlowStore(), OneWorker()
    runs, run = await made(store, workers)

    async def progress() -> tuple[str, str]:
        answer = await runs.run(GetRun(run=run))
        assert isinstance(answer, OneRun)
        return answer.run.stage, answer.run.case

    seen = [await progress()]
    workers.may_begin.set()
    await workers.asked.wait()
    seen.append(await progress())
    workers.may_end.set()
    await store.asked.acquire()
    seen.append(await progress())
    for _ in range(CASES):
        store.may_end.release()
        await store.asked.acquire()
    seen.append(await progress())  # while its end is being written
    store.may_end.release()
    second = smoke(0).cases[1].id
    assert seen == [("WAITING", ""), ("MAKING_SUITE", ""), ("TRYING", second), ("", "")]


async def test_a_case_for_which_another_left_no_room_is_tried_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work, tried = set[str](), list[str]()

    async def crowded(_: object, task: Task) -> CaseResult:
        tried.append(task.case.id)
        at_work.add(task.case.id)
        await asyncio.sleep(0)
        alone = len(at_work) == 1
        await asyncio.sleep(0)
        at_work.remove(task.case.id)
        if not alone:
            raise LimitExceeded(
                Status.ACL_ERROR_RT_OVER_LIMIT, "full", parameter="", given="", allowed=""
            )
        return CaseResult(case=task.case.id, status=Verdict.PASSED)

    monkeypatch.setattr("opserve_server.conformance.runs._record_of", crowded)
    store, workers = SlowStore(), OneWorker()
    for event in (workers.may_begin, workers.may_end):
        event.set()
    await made(store, workers)
    for _ in range(CASES + 1):
        store.may_end.release()
    while store.state in {"", "RUNNING"}:
        await store.asked.acquire()
        await asyncio.sleep(0)
    first, second, third = (case.id for case in smoke(0).cases[:CASES])
    assert tried == [first, second, first, third, second]
    assert (store.places, store.state) == ([0, 1, 2], "ENDED")
