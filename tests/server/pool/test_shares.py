"""Shares of a call in threads, without a worker."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import pytest

from opserve_server.pool.shares import UNITS_BEYOND, run_shares, shares_of


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def look_up() -> bool:
    """Finds nothing, and continues."""
    return True


def test_every_unit_runs_once_and_those_of_a_share_in_order(pool: ThreadPoolExecutor) -> None:
    ran: list[int] = []

    def run(first: int, last: int) -> None:
        ran.extend(range(first, last))

    run_shares(run, shares_of((30, 0, 12, 5)), (20, 30, 42, 47), pool, look_up)
    assert sorted(ran) == list(range(47))
    for share in (range(30), range(30, 42), range(42, 47)):
        assert [unit for unit in ran if unit in share] == list(share)


def test_a_call_without_units_is_done(pool: ThreadPoolExecutor) -> None:
    def run(first: int, last: int) -> None:
        pytest.fail(f"units {first} to {last} ran")

    run_shares(run, shares_of(()), (), pool, look_up)


def test_the_first_share_runs_where_it_was_called_from(pool: ThreadPoolExecutor) -> None:
    threads: dict[int, int] = {}

    def run(first: int, _: int) -> None:
        threads[first] = get_ident()

    run_shares(run, shares_of((1, 1)), (1, 2), pool, look_up)
    assert threads[0] == get_ident() != threads[1]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_share_that_fails_lets_the_other_finish(pool: ThreadPoolExecutor, failing: int) -> None:
    failed, done = Event(), Event()

    def run(first: int, _: int) -> None:
        if first == failing:
            failed.set()
            raise ValueError("planted")
        assert failed.wait(20)
        done.set()

    with pytest.raises(ValueError, match="planted"):
        run_shares(run, shares_of((1, 1)), (1, 2), pool, look_up)
    assert done.is_set()


def test_every_share_is_ended_by_what_it_looks_up(pool: ThreadPoolExecutor) -> None:
    ran: list[int] = []

    def stopped() -> bool:
        raise EOFError

    def run(first: int, _: int) -> None:
        ran.append(first)

    with pytest.raises(EOFError):
        run_shares(run, shares_of((1000, 1000)), (1000, 2000), pool, stopped)
    assert sorted(ran) == [0, 1000]


def test_a_slice_extends_into_few_units_of_a_stage_that_may_be_slower(
    pool: ThreadPoolExecutor,
) -> None:
    slices: list[range] = []

    def run(first: int, last: int) -> None:
        slices.append(range(first, last))

    run_shares(run, shares_of((20_000,)), (10_000, 20_000), pool, look_up)
    first = next(units for units in slices if units.stop >= 10_000)
    second = slices[slices.index(first) + 1]
    assert max(map(len, slices)) > UNITS_BEYOND >= len(second)
    assert first.stop - max(first.start, 10_000) <= UNITS_BEYOND


@pytest.mark.parametrize("units", [(40,), (40, 0, 25), (1, 60)])
def test_a_call_that_pauses_at_every_slice_runs_each_unit_once_and_in_order(
    pool: ThreadPoolExecutor, units: tuple[int, ...]
) -> None:
    ran: list[int] = []

    def run(first: int, last: int) -> None:
        ran.extend(range(first, last))

    shares, turns = shares_of(units), 1
    while run_shares(run, shares, (20, sum(units)), pool, lambda: False):
        turns += 1
    assert sorted(ran) == list(range(sum(units)))
    for share in shares_of(units):
        assert [unit for unit in ran if unit in range(share.first, share.end)] == list(
            range(share.first, share.end)
        )
    assert turns > 2, "slices keep their length over a pause, and grow from one unit"
