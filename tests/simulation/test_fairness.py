"""Tenants share a device by weight in device time for any load; planted bugs are found."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count, pairwise
from random import Random
from typing import Any
from unittest import mock

import pytest

from opserve_kernels.registry import kernels_of
from opserve_server.core import dispatch
from opserve_server.core.accounts import Account
from opserve_server.core.dispatch import Dispatcher
from opserve_server.core.history import HistoryEntry, Outcome
from opserve_server.core.streams import Stream
from opserve_server.core.tenants import Resource, Tenant
from opserve_server.core.usage import UsageBook
from opserve_server.core.work import KernelRun
from opserve_server.pool import device as device_module
from opserve_server.pool.crash_page import CrashPage
from opserve_server.pool.device import Device
from opserve_server.pool.fair_queue import FairQueue
from opserve_server.pool.messages import KernelCall, Region
from opserve_server.pool.run_queue import RunQueue, Task
from opserve_server.pool.slabs import Slab
from simulation.history import check_tenants
from simulation.virtual_time import VirtualTimeLoop
from simulation.worker import SLICE_S, Ran, SimulatedWorker, WorkerFaults

US = 1_000_000
TOLERANCE = 0.03
SHARES = "the shares of time are not by weight"
BLAMED = "a call is blamed for the death of a worker that ran another"
QUIET = WorkerFaults(
    fails=0, hangs=0, endless=0, start_fails=0, seconds=lambda call, _: call.parameters[0] / US
)


class ChargedTenant:
    """A tenant, and the outcomes of its calls."""

    def __init__(self, name: str, weight: int) -> None:
        self.name = name
        self.book = UsageBook(lambda: 0.0)
        self.account = Account(Tenant(name=name, weight=weight), self.book)
        self.ended: list[HistoryEntry] = []

    @property
    def paid_s(self) -> float:
        """Device seconds that it was charged."""
        return self.book.seconds_today(self.name)


class SimulatedDispatch:
    """A dispatcher and a device whose workers are simulated."""

    def __init__(self) -> None:
        self.workers: list[SimulatedWorker] = []
        self.log: list[Ran] = []
        self.streams: list[Stream] = []
        self.payers: list[ChargedTenant] = []
        self.handles = count(1)
        self.device = Device(
            name="ascend910b-0",
            profile="ascend910b",
            memory_bytes=2**16,
            slab_bytes=2**16,
            start_timeout_s=10.0,
            call_time_limit_s=50.0,
            silence_limit_s=10.0,
            threads=1,
            kernels=kernels_of("ascend910b"),
        )
        self.dispatcher = Dispatcher(self.device)
        self.slab: Slab

    async def start_worker(
        self, _: str, kernels: dict[str, str], *, on_message: Any, **more: Any
    ) -> SimulatedWorker:
        worker = SimulatedWorker(
            pid=len(self.workers) + 1,
            random=Random(0),  # noqa: S311  # no secret
            worker_faults=QUIET,
            operators=sorted(kernels),
            call_time_limit_s=more["call_time_limit_s"],
            on_message=on_message,
            log=self.log,
            computes=lambda _: None,
        )
        self.workers.append(worker)
        return worker

    def payer(self, name: str, weight: int = 1) -> ChargedTenant:
        payer = ChargedTenant(name, weight)
        self.payers.append(payer)
        return payer

    def stream(self, payer: ChargedTenant) -> Stream:
        stream = Stream(
            next(self.handles),
            account=payer.account,
            dispatcher=self.dispatcher,
            queue_limit=10_000,
            history_limit=1,
            reservation=payer.account.reserve(Resource.QUEUED),
            observe=payer.ended.append,
            stopped_streams=set(),
        )
        self.streams.append(stream)
        return stream

    def submit(self, stream: Stream, seconds: Iterable[float]) -> None:
        region = Region(self.slab.id, 0, 8)
        for each_s in seconds:
            number = next(self.handles)
            call = KernelCall(
                operator="im2col_backward",
                shares=(1,),
                parameters=(round(each_s * US), number),
                tensors=(region, Region(self.slab.id, 8, 8)),
                workspace=None,
            )
            stream.submit(KernelRun(number, call))

    def runs(self, call: KernelCall) -> bool:
        """Whether a worker is at a call."""
        worker = self.workers[-1]
        task = worker._running
        return not worker.dead.done() and task is not None and task.run.call == call

    def ran_s(self, flow: int, *, since_s: float = 0.0) -> float:
        """Seconds in which the device ran a tenant's calls, without the current turn."""
        turns = [turn for worker in self.workers for turn in worker.turns if turn.flow == flow]
        return sum(max(turn.to_s - max(turn.from_s, since_s), 0.0) for turn in turns)

    async def shares(self, flows: int, *, seconds: float) -> list[float]:
        """The share of each flow in the device's time from now on."""
        since_s = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        return [self.ran_s(flow + 1, since_s=since_s) / seconds for flow in range(flows)]


@asynccontextmanager
async def running_station() -> AsyncGenerator[SimulatedDispatch]:
    """A station that is held against what must always hold, when all work has ended."""
    station = SimulatedDispatch()
    processes = mock.Mock(start=station.start_worker)
    with mock.patch.object(device_module, "WorkerProcess", processes):
        await station.device.start()
        station.slab = station.device.slabs.take(1)
        station.device.attach(station.slab)
        yield station
        async with asyncio.timeout(3600):
            await asyncio.gather(*(stream.over() for stream in station.streams))
        check_tenants(station.log)
        for payer in station.payers:
            starts_s = [entry.started_s or 0.0 for entry in payer.ended if entry.kernel_s]
            assert all(earlier <= later for earlier, later in pairwise(starts_s))
        await station.device.stop()


async def weights_are_kept(calls_s: Callable[[Random], float]) -> None:
    async with running_station() as station:
        random = Random(1)  # noqa: S311  # no secret
        light, heavy = station.payer("light", 1), station.payer("heavy", 3)
        for payer in (light, heavy):
            station.submit(station.stream(payer), [calls_s(random) for _ in range(4000)])
        shares = await station.shares(2, seconds=5)
        assert shares == pytest.approx([0.25, 0.75], abs=TOLERANCE), SHARES
        assert sum(shares) == pytest.approx(1, abs=0.005), "the device stood still"
        for stream in station.streams:
            stream.abort()
    paid_s = [payer.paid_s for payer in (light, heavy)]
    ran_s = [station.ran_s(flow) for flow in (1, 2)]
    assert paid_s == pytest.approx(ran_s), "time was lost, or charged twice"


async def short_calls() -> None:
    await weights_are_kept(lambda random: random.uniform(0.0005, 0.004))


async def calls_of_any_length() -> None:
    await weights_are_kept(lambda random: random.choice((0.001, 0.01, 0.9)))


async def a_flood_of_long_calls_holds_nobody_up(tenants: int = 3) -> None:
    async with running_station() as station:
        for number in range(tenants):
            payer = station.payer(f"flood-{number}")
            for _ in range(4):
                station.submit(station.stream(payer), [1.0] * 4)
        guest = station.payer("guest")
        stream, random = station.stream(guest), Random(2)  # noqa: S311  # no secret
        for _ in range(20):
            await asyncio.sleep(random.uniform(0.1, 0.3))
            asked_s = asyncio.get_running_loop().time()
            station.submit(stream, [0.001])
            await stream.over()
            began_s = guest.ended[-1].started_s
            assert began_s is not None
            assert began_s - asked_s <= tenants * SLICE_S + 1e-9, (
                "it waited for more than a slice of each"
            )
            assert guest.ended[-1].kernel_s == pytest.approx(0.001)
        for flood in station.streams:
            flood.abort()


async def many_streams_get_no_more_than_one() -> None:
    async with running_station() as station:
        many, one = station.payer("many"), station.payer("one")
        for _ in range(64):
            station.submit(station.stream(many), [0.02] * 10)
        station.submit(station.stream(one), [0.02] * 200)
        shares = await station.shares(2, seconds=5)
        assert shares == pytest.approx([0.5, 0.5], abs=TOLERANCE), SHARES


async def who_was_idle_has_saved_nothing() -> None:
    async with running_station() as station:
        busy, idle = station.payer("busy"), station.payer("idle")
        station.submit(station.stream(busy), [0.02] * 400)
        station.submit(returning := station.stream(idle), [0.02])
        await asyncio.sleep(3)
        station.submit(returning, [0.02] * 100)
        shares = await station.shares(2, seconds=1)
        assert shares == pytest.approx([0.5, 0.5], abs=TOLERANCE), SHARES


async def who_comes_back_has_no_claim_on_the_time_of_a_long_call() -> None:
    async with running_station() as station:
        busy, idle = station.payer("busy"), station.payer("idle")
        station.submit(station.stream(busy), [4.0] * 2)
        await asyncio.sleep(3)
        station.submit(station.stream(idle), [0.02] * 100)
        shares = await station.shares(2, seconds=1)
        assert shares == pytest.approx([0.5, 0.5], abs=TOLERANCE), SHARES


async def who_kills_workers_harms_nobody_else() -> None:
    async with running_station() as station:
        victim, killer = station.payer("victim"), station.payer("killer")
        station.submit(station.stream(victim), [0.1] * 3)
        await asyncio.sleep(0.02)
        station.submit(poisoned := station.stream(killer), [0.02, 0.02])
        poison = poisoned._queue[0] if poisoned._queue else next(iter(poisoned._at_device))
        work = poison.work
        assert isinstance(work, KernelRun)
        for _ in range(2):
            await until(lambda: station.runs(work.call))
            station.workers[-1].kill()
            await until(lambda: not station.runs(work.call))
    assert [entry.outcome for entry in victim.ended] == [Outcome.DONE] * 3, BLAMED
    assert [entry.outcome for entry in killer.ended] == [Outcome.FAILED, Outcome.DONE]
    assert killer.paid_s > 0.02, "the time of a worker that died is the killer's"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.001)


async def more_tenants_than_places_take_turns() -> None:
    async with running_station() as station:
        with mock.patch.object(dispatch, "TENANTS_AT_DEVICE", 3):
            for number in range(9):
                payer = station.payer(f"tenant-{number}")
                station.submit(station.stream(payer), [0.02] * 40)
            shares = await station.shares(9, seconds=5)
            assert len(station.workers[0]._run_queue._flows) == 3
            assert shares == pytest.approx([1 / 9] * 9, abs=TOLERANCE), SHARES


SCENARIOS = (
    short_calls,
    calls_of_any_length,
    a_flood_of_long_calls_holds_nobody_up,
    many_streams_get_no_more_than_one,
    who_was_idle_has_saved_nothing,
    who_comes_back_has_no_claim_on_the_time_of_a_long_call,
    who_kills_workers_harms_nobody_else,
    more_tenants_than_places_take_turns,
)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(whole())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_tenants_share_a_device_fairly(scenario: Callable[[], Awaitable[None]]) -> None:
    run(scenario)


def take_whoever_came_first(patch: pytest.MonkeyPatch) -> None:
    """Turns ignore earlier use."""

    def choose(self: FairQueue[Any], among: Iterable[Any]) -> Any:
        del self
        return next(iter(among))

    patch.setattr(FairQueue, "next", choose)


def never_pause(patch: pytest.MonkeyPatch) -> None:
    """A call runs to its end although others wait."""

    def is_over(self: FairQueue[Any], _: Any) -> bool:
        del self
        return False

    patch.setattr(FairQueue, "has_had_more", is_over)


def ignore_weights(patch: pytest.MonkeyPatch) -> None:
    """Every tenant counts alike."""
    original = FairQueue[Any].charge

    def charge(self: FairQueue[Any], key: Any, used_ns: float, *, weight: int) -> None:
        del weight
        original(self, key, used_ns, weight=1)

    patch.setattr(FairQueue, "charge", charge)


def save_up_credit(patch: pytest.MonkeyPatch) -> None:
    """A returning tenant has its unused share."""
    known: defaultdict[tuple[int, Any], float] = defaultdict(float)
    original = FairQueue[Any].leave

    def join(self: FairQueue[Any], key: Any) -> None:
        self._virtual_ns.setdefault(key, known[id(self), key])

    def leave(self: FairQueue[Any], key: Any) -> None:
        known[id(self), key] = self._virtual_ns[key]
        original(self, key)

    patch.setattr(FairQueue, "join", join)
    patch.setattr(FairQueue, "leave", leave)


def blame_the_oldest(patch: pytest.MonkeyPatch) -> None:
    """The call that has waited longest is blamed for a worker's death."""
    original = Device._settle_calls

    def settle(self: Device, crash_page: CrashPage) -> None:
        crash_page.call_id = next(iter(self._pending), 0)  # type: ignore[misc]
        original(self, crash_page)

    patch.setattr(Device, "_settle_calls", settle)


def run_the_last_first(patch: pytest.MonkeyPatch) -> None:
    """A call overtakes the one before it."""

    def last(self: RunQueue) -> Task:
        return [*self._flows[self._fair_queue.next(self._flows)].values()][-1]

    patch.setattr(RunQueue, "next", last)


@pytest.mark.parametrize(
    ("plant", "scenario", "found"),
    [
        (take_whoever_came_first, many_streams_get_no_more_than_one, SHARES),
        (never_pause, a_flood_of_long_calls_holds_nobody_up, "more than a slice of each"),
        (ignore_weights, short_calls, SHARES),
        (save_up_credit, who_was_idle_has_saved_nothing, SHARES),
        (blame_the_oldest, who_kills_workers_harms_nobody_else, BLAMED),
        (run_the_last_first, short_calls, "a call of its tenant went before"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    scenario: Callable[[], Awaitable[None]],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        run(scenario)
