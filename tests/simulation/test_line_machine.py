"""The waiting line does as its model does, and every bug that is planted is found."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from opserve_server.core.accounts import Account
from opserve_server.core.asking import Wanted
from opserve_server.core.infos import WaitingInfo
from opserve_server.core.room import Room
from opserve_server.core.session import Session
from opserve_server.core.waiting_line import Place, PlaceKey, WaitingLine
from simulation.line_machine import LineMachine

CLEAN = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
PLANTED = settings(
    CLEAN,
    max_examples=400,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


def test_the_line_behaves_as_its_model() -> None:
    run_state_machine_as_test(LineMachine, settings=CLEAN)


def let_priority_win_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits grows no older: a higher priority always comes first."""
    original = WaitingLine._enter

    def enter(self: WaitingLine, account: Account, wanted: Wanted, key: PlaceKey | None) -> Place:
        place = original(self, account, wanted, key)
        place.order = (-float(wanted.priority), place.order[1])
        self._places.sort(key=lambda one: one.order)
        return place

    patch.setattr(WaitingLine, "_enter", enter)


def let_others_take_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Sessions that come and go never leave a device empty for who wants it alone."""

    def keep(self: Room, wanted: Wanted, *, tenant: str) -> None:
        del self, wanted, tenant

    patch.setattr(Room, "keep", keep)


def keep_a_device_for_ever(patch: pytest.MonkeyPatch) -> None:
    """An exclusive session lives as long as its client calls."""
    patch.setattr(Session, "exclusive_until", property(lambda _: float("inf")))


def grant_to_who_is_away(patch: pytest.MonkeyPatch) -> None:
    """Who was cut off is not passed over."""
    patch.setattr(Place, "waits", property(lambda place: not place.granted.done()))


def count_all_in_the_line(patch: pytest.MonkeyPatch) -> None:
    """A position counts those that want other devices too."""
    original = WaitingLine._info

    def info(self: WaitingLine, place: Place, room: Room) -> WaitingInfo:
        ahead = sum(other.waits and other.order < place.order for other in self._places)
        return replace(original(self, place, room), position=ahead + 1)

    patch.setattr(WaitingLine, "_info", info)


def forget_who_waits_behind(patch: pytest.MonkeyPatch) -> None:
    """A wait that ends leaves what was kept for it to nobody, until somebody looks."""

    def leave(self: WaitingLine, place: Place) -> None:
        self._places.remove(place)
        for timer in place.timers.values():
            timer.cancel()

    patch.setattr(WaitingLine, "_leave", leave)


def wait_without_an_end(patch: pytest.MonkeyPatch) -> None:
    """Who wants a device alone waits on behind the deadline."""
    original = WaitingLine._give_up

    def give_up(self: WaitingLine, place: Place) -> None:
        if place.wanted.exclusive_s is None:
            original(self, place)

    patch.setattr(WaitingLine, "_give_up", give_up)


def look_at_nothing(patch: pytest.MonkeyPatch) -> None:
    """A device that becomes ready is given to who waits when something else happens."""

    def look_again(self: WaitingLine) -> None:
        self._look = asyncio.get_running_loop().call_later(1e9, self._look_again)

    patch.setattr(WaitingLine, "_look_again", look_again)


@pytest.mark.parametrize(
    "plant",
    [
        let_priority_win_for_ever,
        let_others_take_what_is_kept,
        keep_a_device_for_ever,
        grant_to_who_is_away,
        count_all_in_the_line,
        forget_who_waits_behind,
        wait_without_an_end,
        look_at_nothing,
    ],
)
def test_the_machine_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(LineMachine, settings=PLANTED)
