"""A short soak: `make soak` at work, and that it sees what grows."""

from dataclasses import replace

import pytest

from benchmarks.census import COUNTED, Census
from benchmarks.client_behaviours import (
    Behaviour,
    cancel_calls,
    copy_bytes,
    make_errors,
    run_calls,
)
from benchmarks.soak import GROWTH, failures, judged, soak
from benchmarks.soak_tenants import Tally, kind_of
from opserve_client import OpserveError

pytestmark = pytest.mark.system
SECONDS = 20.0
FLAT = Census(
    front_mib=50, workers_mib=300, slabs_mib=4, memfds=8, descriptors=60, threads=18, processes=5
)


@pytest.mark.slow
def test_nothing_grows_in_a_short_soak() -> None:
    samples, tally = soak(seconds=SECONDS, seed=7)
    assert len(samples) >= 2
    assert failures(tally).met, tally.unexplained
    grown = {goal.goal: goal.value for goal in judged(samples) if not goal.met}
    assert grown == {}


@pytest.mark.parametrize("name", COUNTED)
def test_a_soak_finds_every_growth(name: str) -> None:
    step = GROWTH[name] / 10
    samples = [replace(FLAT, **{name: getattr(FLAT, name) + step * n}) for n in range(20)]
    assert [goal.goal.split()[2] for goal in judged(samples) if not goal.met] == [name]


@pytest.mark.parametrize(
    ("call", "error", "explained"),
    [
        (run_calls, OpserveError("no memory", code=207001), True),
        (make_errors, OpserveError("null", code=161001), True),
        (cancel_calls, TimeoutError(), True),
        (run_calls, OpserveError("wrong shape", code=161002), False),
        (run_calls, TimeoutError(), False),
        (make_errors, AssertionError("the service accepted an invalid call"), False),
        (run_calls, AssertionError("a wrong answer"), False),
        (copy_bytes, ConnectionError("refused"), False),
    ],
)
def test_a_failure_that_no_behaviour_causes_fails_the_soak(
    call: Behaviour, error: Exception, *, explained: bool
) -> None:
    tally = Tally()
    with tally.counted(kind_of(call, "HTTP")):
        raise error
    assert tally.calls.total() == tally.explained.total() + tally.unexplained.total() == 1
    assert failures(tally).met == explained
