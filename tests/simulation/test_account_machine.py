"""No interleaving leaks or doubles a charge, and every bug that is planted is found."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis.stateful import run_state_machine_as_test

from opserve_server.core.accounts import Account
from opserve_server.core.devices import Device
from opserve_server.core.errors import OutOfMemory
from opserve_server.core.handles import HandleTable
from opserve_server.core.memory import SessionMemory
from opserve_server.core.session import Session
from opserve_server.core.sessions import Sessions
from opserve_server.core.streams import Stream
from opserve_server.core.tenants import Resource
from opserve_server.pool.slabs import Slab
from server.core.fakes import KIB
from simulation.account_machine import AccountMachine
from simulation.directed import CLEAN, PLANTED, SEARCH, Planted, by_name, go_through


def test_usage_always_equals_the_tables() -> None:
    run_state_machine_as_test(AccountMachine, settings=CLEAN)


def keep_the_charge_of_a_failed_allocation(patch: pytest.MonkeyPatch) -> None:
    """A slab that no worker can attach stays charged."""
    original = SessionMemory._take_slab

    def take(self: SessionMemory, size_bytes: int) -> Slab:
        before = self._device.slabs.free_bytes
        try:
            return original(self, size_bytes)
        except OutOfMemory:
            self._reservation._counter.use += before
            raise

    patch.setattr(SessionMemory, "_take_slab", take)


def give_back_twice_when_a_close_meets_the_end_of_the_lease(patch: pytest.MonkeyPatch) -> None:
    """A session that is closed and whose lease ends releases its place twice."""
    original = Session.return_all

    def return_all(self: Session) -> None:
        original(self)
        if self.time() >= self.ends_at:
            self._reservation._counter.use -= 1

    patch.setattr(Session, "return_all", return_all)


def keep_aborted_entries(patch: pytest.MonkeyPatch) -> None:
    """Entries that an abort drops stay charged."""
    original = Stream.abort

    def abort(self: Stream) -> None:
        before = self._reservation._amount
        original(self)
        self._reservation.update(before)

    patch.setattr(Stream, "abort", abort)


def keep_reclaimed_slabs(patch: pytest.MonkeyPatch) -> None:
    """Slabs that are released while their session lives stay charged."""

    def give_back(self: SessionMemory) -> None:
        for space in [space for space in self._slabs.values() if space.is_empty]:
            del self._slabs[space.slab.id]
            self._device.detach(space.slab)
            self._device.slabs.give_back(space.slab)

    patch.setattr(SessionMemory, "give_back_empty_slabs", give_back)


def keep_used_executors(patch: pytest.MonkeyPatch) -> None:
    """A handle that was removed stays charged."""

    def remove(self: HandleTable[object], handle: int) -> object:
        return self._items.pop(handle)

    patch.setattr(HandleTable, "remove", remove)


def keep_the_bytes_of_a_broken_copy(patch: pytest.MonkeyPatch) -> None:
    """A copy that fails or is cancelled stays charged."""

    @contextmanager
    def in_flight(self: Account, size_bytes: int) -> Generator[None]:
        in_flight = self.reserve(Resource.BYTES_IN_FLIGHT)
        in_flight.check(size_bytes)
        in_flight.update(size_bytes)
        yield
        in_flight.update(0)

    patch.setattr(Account, "in_flight", in_flight)


def reclaim_for_others_alone(patch: pytest.MonkeyPatch) -> None:
    """A tenant without room for a slab keeps those that it does not use."""

    def reclaim(self: Sessions, device: Device, account: Account) -> None:
        for session in self._sessions.values():
            if session.device is device and session.account is not account:
                session.memory.give_back_empty_slabs()

    patch.setattr(Sessions, "_reclaim", reclaim)


def forget_to_ask(patch: pytest.MonkeyPatch) -> None:
    """Streams are charged, and never refused."""

    def next_handle(self: HandleTable[object], wanted: int) -> int:
        return wanted or self._last + 1

    patch.setattr(HandleTable, "next_handle", next_handle)


BUGS: list[Planted[AccountMachine]] = [
    Planted(
        keep_the_charge_of_a_failed_allocation,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.allocate(0, 140 * KIB, "breaks"),
        ],
        "device memory: charged 1048576, taken 131072",
    ),
    Planted(
        give_back_twice_when_a_close_meets_the_end_of_the_lease,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.sessions_end(0, "lease over"),
        ],
        "sessions: charged -1, counted 0",
    ),
    Planted(
        keep_aborted_entries,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.execute(0, 0, [0, 0, 0], None),
            lambda quotas: quotas.abort_or_destroy_a_stream(0, 0),
        ],
        "queued_entries: charged 1, counted 0",
    ),
    Planted(
        keep_reclaimed_slabs,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.free(0, 0),
            lambda quotas: quotas.free(0, 0),
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.allocate(1, 140 * KIB, "kept"),
        ],
        "device memory: charged 262144, taken 131072",
    ),
    Planted(
        keep_used_executors,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.destroy_executor(0),
        ],
        "executors: charged 1, counted 0",
    ),
    Planted(
        keep_the_bytes_of_a_broken_copy,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.begin_to_write(0, 0, KIB),
            lambda quotas: quotas.a_write_ends(0, "breaks"),
        ],
        "bytes_in_flight: charged 1024, counted 0",
    ),
    Planted(
        reclaim_for_others_alone,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.free(0, 0),
            lambda quotas: quotas.free(0, 0),
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.allocate(1, 140 * KIB, "kept"),
        ],
        "an unused slab is in the way",
    ),
    Planted(
        forget_to_ask,
        [
            lambda quotas: quotas.open_session("ours", 9, retried=False),
            lambda quotas: quotas.create_stream(0),
            lambda quotas: quotas.create_stream(0),
            lambda quotas: quotas.create_stream(0),
            lambda quotas: quotas.create_stream(0),
        ],
        "streams: 5 beyond 4",
    ),
]


@by_name(BUGS)
def test_a_history_finds_nothing_where_no_bug_is_planted(bug: Planted[AccountMachine]) -> None:
    go_through(AccountMachine(), [AccountMachine.start, *bug.steps])


@by_name(BUGS)
def test_a_history_finds_the_bug_that_is_planted(
    bug: Planted[AccountMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError, match=bug.message):
        go_through(AccountMachine(), [AccountMachine.start, *bug.steps])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_usage_equals_the_tables_in_many_histories() -> None:
    run_state_machine_as_test(AccountMachine, settings=SEARCH)


@pytest.mark.slow
@pytest.mark.timeout(600)
@by_name(BUGS)
def test_the_search_finds_the_bug_that_is_planted(
    bug: Planted[AccountMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(AccountMachine, settings=PLANTED)
