"""The device queue does as its model does, and every bug that is planted is found."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis.stateful import run_state_machine_as_test

from opserve_server.core.accounts import Account
from opserve_server.core.capacity import Capacity
from opserve_server.core.device_queue import DeviceQueue, QueuedRequest, RequestKey
from opserve_server.core.info import WaitingInfo
from opserve_server.core.session import Session
from opserve_server.core.session_request import Requirements
from simulation.directed import CLEAN, PLANTED, SEARCH, Planted, by_name, go_through
from simulation.queue_machine import QueueMachine


def test_the_queue_behaves_as_its_model() -> None:
    run_state_machine_as_test(QueueMachine, settings=CLEAN)


def let_priority_win_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Waiting adds no priority: a higher priority is always granted first."""
    original = DeviceQueue._enter

    def enter(
        self: DeviceQueue, account: Account, requirements: Requirements, key: RequestKey | None
    ) -> QueuedRequest:
        request = original(self, account, requirements, key)
        request.order = (-float(requirements.priority), request.order[1])
        self._requests.sort(key=lambda one: one.order)
        return request

    patch.setattr(DeviceQueue, "_enter", enter)


def let_a_tenant_stand_before_all_others(patch: pytest.MonkeyPatch) -> None:
    """Its own waiting requests do not move a request back."""

    def time_of(*_: object) -> float:
        return asyncio.get_running_loop().time()

    patch.setattr(DeviceQueue, "_time_of", time_of)


def let_others_take_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Short sessions never leave a device empty for an exclusive request."""

    def reserve(self: Capacity, requirements: Requirements, *, tenant: str) -> None:
        del self, requirements, tenant

    patch.setattr(Capacity, "reserve", reserve)


def keep_a_device_for_ever(patch: pytest.MonkeyPatch) -> None:
    """An exclusive session lives as long as its client calls."""
    patch.setattr(Session, "exclusive_until", property(lambda _: float("inf")))


def grant_to_who_is_away(patch: pytest.MonkeyPatch) -> None:
    """A disconnected request is not passed over."""
    not_granted = property(lambda request: not request.granted.done())
    patch.setattr(QueuedRequest, "can_be_granted", not_granted)


def count_all_in_the_line(patch: pytest.MonkeyPatch) -> None:
    """A position counts those that want other devices too."""
    original = DeviceQueue._info

    def info(self: DeviceQueue, request: QueuedRequest, capacity: Capacity) -> WaitingInfo:
        earlier = [other for other in self._requests if other.order < request.order]
        ahead = sum(other.can_be_granted for other in earlier)
        return replace(original(self, request, capacity), position=ahead + 1)

    patch.setattr(DeviceQueue, "_info", info)


def forget_who_waits_behind(patch: pytest.MonkeyPatch) -> None:
    """The reserved device of a wait that ends stays unused until the next scan."""

    def leave(self: DeviceQueue, request: QueuedRequest) -> None:
        self._requests.remove(request)
        for timer in request.timers.values():
            timer.cancel()

    patch.setattr(DeviceQueue, "_leave", leave)


def wait_without_an_end(patch: pytest.MonkeyPatch) -> None:
    """An exclusive request waits on after its deadline."""
    original = DeviceQueue._time_out

    def time_out(self: DeviceQueue, request: QueuedRequest) -> None:
        if request.requirements.exclusive_s is None:
            original(self, request)

    patch.setattr(DeviceQueue, "_time_out", time_out)


def look_at_nothing(patch: pytest.MonkeyPatch) -> None:
    """A device that becomes ready is granted to a wait only at the next other event."""

    def poll(self: DeviceQueue) -> None:
        self._poll_timer = asyncio.get_running_loop().call_later(1e9, self._poll)

    patch.setattr(DeviceQueue, "_poll", poll)


def ask(  # as the machine's rule, with values of most histories
    tenant: str,
    tags: str,
    *,
    priority: int = 0,
    alone_s: int = 0,
    wait_s: int = 0,
    way: str = "once",
) -> Callable[[QueueMachine], None]:
    """A step: a client asks for a session."""
    return lambda line: line.ask(tenant, tags, priority, alone_s, wait_s, way)


NONE_READY: list[Callable[[QueueMachine], None]] = [
    lambda line: line.a_device_fails_or_is_ready_again("one"),
    lambda line: line.a_device_fails_or_is_ready_again("two"),
    lambda line: line.a_device_fails_or_is_ready_again("three"),
]

BUGS: list[Planted[QueueMachine]] = [
    Planted(
        let_priority_win_for_ever,
        [
            *NONE_READY,
            ask("lab", "", wait_s=45),
            lambda line: line.time_passes(30),
            ask("lab", "", priority=1, wait_s=45),
        ],
        "waiting: .*, expected ",
    ),
    Planted(
        let_a_tenant_stand_before_all_others,
        [
            *NONE_READY,
            *[ask("lab", "", wait_s=45)] * 2,
            ask("yard", "", wait_s=45),
        ],
        "waiting: .*, expected ",
    ),
    Planted(
        let_others_take_what_is_kept,
        [*[ask("lab", "")] * 3, ask("lab", "", alone_s=10, wait_s=7), ask("lab", "")],
        "answered 'one', expected 'two'",
    ),
    Planted(
        keep_a_device_for_ever,
        [ask("lab", "", alone_s=10), lambda line: line.time_passes(30)],
        "sessions: .*, expected ",
    ),
    Planted(
        grant_to_who_is_away,
        [
            *NONE_READY,
            ask("lab", "", wait_s=45, way="named"),
            lambda line: line.a_client_is_cut_off(0),
            lambda line: line.a_device_fails_or_is_ready_again("one"),
            lambda line: line.time_passes(6),
        ],
        "sessions: .*, expected ",
    ),
    Planted(
        count_all_in_the_line,
        [*NONE_READY, ask("lab", "a", wait_s=45), ask("lab", "b", wait_s=45)],
        "waiting: .*, expected ",
    ),
    Planted(
        forget_who_waits_behind,
        [
            *[ask("lab", "")] * 3,
            ask("lab", "", alone_s=10, wait_s=7),
            ask("lab", "a", wait_s=45),
            lambda line: line.a_client_is_cut_off(0),
        ],
        "answered '', expected 'one'",
    ),
    Planted(
        wait_without_an_end,
        [
            *NONE_READY,
            ask("lab", "", alone_s=10, wait_s=7),
            lambda line: line.time_passes(30),
        ],
        "answered '', expected 'WaitTimedOut'",
    ),
    Planted(
        look_at_nothing,
        [
            *NONE_READY,
            ask("lab", "a", wait_s=45),
            lambda line: line.a_device_fails_or_is_ready_again("one"),
            lambda line: line.time_passes(6),
        ],
        "answered '', expected 'one'",
    ),
]


@by_name(BUGS)
def test_a_history_finds_nothing_where_no_bug_is_planted(bug: Planted[QueueMachine]) -> None:
    go_through(QueueMachine(), [QueueMachine.start, *bug.steps])


@by_name(BUGS)
def test_a_history_finds_the_bug_that_is_planted(
    bug: Planted[QueueMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError, match=bug.message):
        go_through(QueueMachine(), [QueueMachine.start, *bug.steps])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_queue_behaves_as_its_model_in_many_histories() -> None:
    run_state_machine_as_test(QueueMachine, settings=SEARCH)


@pytest.mark.slow
@pytest.mark.timeout(600)
@by_name(BUGS)
def test_the_search_finds_the_bug_that_is_planted(
    bug: Planted[QueueMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(QueueMachine, settings=PLANTED)
