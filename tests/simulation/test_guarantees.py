"""The service keeps its guarantees under all disturbances; planted bugs are found."""

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import count
from typing import Any, cast

import pytest

from opserve_server.core.buffers import Buffer
from opserve_server.core.errors import OpserveError
from opserve_server.core.events import Record
from opserve_server.core.history import History, HistoryEntry
from opserve_server.core.memory import SessionMemory
from opserve_server.core.requests import AnsweredRequests
from opserve_server.core.service import Service
from opserve_server.core.session import Session
from opserve_server.core.sessions import Sessions
from opserve_server.core.streams import Stream
from opserve_server.core.work import KernelRun, Mark, Wait
from opserve_server.pool.device import Device
from opserve_server.pool.slabs import Slab, SlabPool
from simulation.world import CALM, Disturbances, World

SEEDS = range(50)
MANY_SEEDS = range(1000, 6000)
ROUGH = Disturbances()
EVERY_TURN_SEEDS = (1,)
FAULTS = (World.kill_worker, World.cut_off_clients, World.close_sessions)


def run_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        World(seed, ROUGH).run()


@cache
def ran(seed: int) -> World:
    """A world at its end, which several tests read."""
    return world_of(seed)


def world_of(seed: int) -> World:
    world = World(seed, ROUGH)
    world.run()
    return world


def test_every_guarantee_holds() -> None:
    for seed in SEEDS:
        ran(seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_guarantee_holds_for_thousands_of_seeds() -> None:
    run_all(MANY_SEEDS)


def test_a_seed_replays() -> None:
    histories = [ran(seed).history() for seed in SEEDS[:10]]
    assert histories == [world_of(seed).history() for seed in SEEDS[:10]]
    assert len(set(histories)) == len(histories)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", EVERY_TURN_SEEDS)
def test_every_guarantee_holds_wherever_a_fault_strikes(
    seed: int, fault: Callable[[World], object]
) -> None:
    calm = World(seed, CALM)
    calm.run()
    turns = calm.turns_of_work
    assert turns > 100, "the clients did nothing"
    for turn in range(1, turns):
        World(seed, CALM).run(at_turn=(turn, fault))


def test_a_world_is_as_rough_as_it_should_be() -> None:
    worlds = [ran(seed) for seed in SEEDS[:30]]
    outcomes = [ran.outcome for world in worlds for ran in world.log]
    for outcome, least in {"done": 300, "died": 30, "failed": 10}.items():
        assert outcomes.count(outcome) >= least
    assert sum(world.service.draining for world in worlds) >= 3
    assert sum(world.mappings.count for world in worlds) >= 10
    client_streams = [
        client_stream
        for world in worlds
        for client in world.clients
        for client_stream in client.finished
    ]
    assert sum(client_stream.watcher.whole for client_stream in client_streams) >= 50
    assert sum(len(client_stream.watcher.reported) for client_stream in client_streams) >= 300


def lose_a_wake_up(patch: pytest.MonkeyPatch) -> None:
    """Every fifth record of an event wakes no waiter."""
    original, reached = Record.reach, count(1)

    def reach(self: Record) -> None:
        if next(reached) % 5:
            original(self)

    patch.setattr(Record, "reach", reach)


def replay_twice(patch: pytest.MonkeyPatch) -> None:
    """A new worker receives the slabs of the dead one twice."""
    original = Device._activate

    def activate(self: Device, current: Any) -> None:
        original(self, current)
        for pending in self._pending.values():
            self._send(current, pending.frame)

    patch.setattr(Device, "_activate", activate)


def keep_a_lease(patch: pytest.MonkeyPatch) -> None:
    """A session whose client has disconnected stays."""

    def expire(self: Sessions, session: Session) -> None:
        del self, session

    patch.setattr(Sessions, "_expire", expire)


def reach_an_event_early(patch: pytest.MonkeyPatch) -> None:
    """An event does not wait for the work before it."""
    original = Stream.submit

    def submit(self: Stream, work: KernelRun | Mark | Wait) -> None:
        if isinstance(work, Mark):
            work.record.reach()
        else:
            original(self, work)

    patch.setattr(Stream, "submit", submit)


def forget_answers(patch: pytest.MonkeyPatch) -> None:
    """A retry is carried out again."""

    async def once(self: object, request_id: str, request: object, work: Any) -> Any:
        del self, request_id, request
        return await work()

    patch.setattr(AnsweredRequests, "once", once)
    patch.setattr(AnsweredRequests, "at_once", once)


def hand_out_memory_in_use(patch: pytest.MonkeyPatch) -> None:
    """Memory is released while a call still uses it."""

    def used_by(self: Buffer, done: object) -> None:
        del self, done

    patch.setattr(Buffer, "used_by", used_by)


def tell_an_entry_again(patch: pytest.MonkeyPatch) -> None:
    """A resumed watch begins with entries that its watcher has already."""
    original = History.watch

    def watch(self: History, after: int, **limits: float) -> Any:
        return original(self, max(after - 1, 0), **limits)

    patch.setattr(History, "watch", watch)


def forget_an_entry(patch: pytest.MonkeyPatch) -> None:
    """Every fifth entry is not kept."""
    original, added = History.add, count(1)

    def add(self: History, *args: Any, **what: Any) -> HistoryEntry:
        entry = original(self, *args, **what)
        if next(added) % 5 == 0:
            self._entries.pop()
            self._last -= 1
        return entry

    patch.setattr(History, "add", add)


def take_new_work_in_a_drain(patch: pytest.MonkeyPatch) -> None:
    """A draining service continues as before in its open sessions."""

    def check_takes(self: Service, *what: object) -> None:
        del self, what

    patch.setattr(Service, "_check_accepts", check_takes)


def drain_at_once(patch: pytest.MonkeyPatch) -> None:
    """A drain ends sessions without a look at what they do."""

    def is_quiet(self: Session, for_s: float) -> bool:
        del self, for_s
        return True

    patch.setattr(Session, "is_quiet", is_quiet)


def hand_out_exposed_memory(patch: pytest.MonkeyPatch) -> None:
    """A slab that a client maps is assigned to the next session."""
    original = SlabPool.give_back

    def give_back(self: SlabPool, slab: Slab) -> None:
        slab.mapped = False
        original(self, slab)

    patch.setattr(SlabPool, "give_back", give_back)


def compute_in_exposed_memory(patch: pytest.MonkeyPatch) -> None:
    """Workspaces are placed anywhere."""
    patch.setattr(SessionMemory, "allocate_hidden", SessionMemory.allocate)


def expose_memory_in_use(patch: pytest.MonkeyPatch) -> None:
    """A slab is mapped while a call computes there."""

    def hide(self: SessionMemory, *what: object) -> None:
        del self, what

    patch.setattr(SessionMemory, "hide", hide)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lose_a_wake_up, "is over, and .* is not done"),
        (replay_twice, "a call of its tenant went before"),
        (keep_a_lease, "memory of a dead client is held"),
        (reach_an_event_early, "did not wait for"),
        (forget_answers, "is no longer there"),
        (hand_out_memory_in_use, "buffer 5 is wrong"),
        (tell_an_entry_again, "after entry 1 came"),
        (forget_an_entry, "a call was never reported"),
        (take_new_work_in_a_drain, "in a drain"),
        (drain_at_once, "a drain ended a session that was in use"),
        (hand_out_exposed_memory, "which a client maps, was not emptied"),
        (compute_in_exposed_memory, "a call computed in memory that a client maps"),
        (expose_memory_in_use, "a call computed in memory that a client maps"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, OpserveError, TimeoutError, ExceptionGroup)) as found:
        run_all(SEEDS)
    assert any(re.search(message, str(error)) for error in leaves_of(found.value))


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors of a group, or the one that there is."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for one in group.exceptions for leaf in leaves_of(one)]
