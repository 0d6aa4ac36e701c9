"""The benchmark of growth and load: a growing row needs a reason, and a stall is not hidden."""

import asyncio
import random
from dataclasses import replace

import pytest

from benchmarks.growth import CALL, KINDS, SIZES, Growth
from benchmarks.growth_page import section
from benchmarks.measure import figure
from benchmarks.open_loop import LATENCY, PERCENTS, RATE, measure_open_loop
from benchmarks.report import Row

_ONE = figure([1.0])
_LOADED = [
    Row(what=what, subject=_ONE, yardstick=_ONE, ratio=_ONE)
    for wire in ("gRPC", "HTTP")
    for what in (RATE.format(wire), *(LATENCY.format(wire, percent) for percent in PERCENTS))
]


@pytest.mark.parametrize(
    ("greatest", "reason", "shown"),
    [
        (1.05, "", "1.05 |  |"),
        (1.5, "the cache of plans", "1.50 | the cache of plans |"),
        (1.5, "", "1.50 | not explained: more than 1.10 |"),
    ],
)
def test_a_row_that_grows_shows_its_reason_or_that_it_has_none(
    greatest: float, reason: str, shown: str
) -> None:
    ratios = dict.fromkeys(SIZES, _ONE) | {SIZES[-1]: figure([greatest])}
    kind = replace(KINDS[0], reason=reason)
    grown = Growth(kind=kind, what=CALL, p50_ms=0.5, ratios=ratios)
    assert grown.goal.met == (greatest <= 1.1)
    written = section([grown], _LOADED, setting="a test")
    assert [line for line in written.splitlines() if line.endswith(shown)]


async def test_latencies_under_load_count_from_the_schedule() -> None:
    """A service that answers nothing until all requests have left."""
    calls = 30
    answered = asyncio.Event()
    waiting = 0

    async def stalled() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == calls:
            answered.set()
        await answered.wait()

    found = await measure_open_loop(stalled, seconds=0.03, calls_per_s=1000.0, seed=7)
    assert len(found) == calls, "none waits for the answer of another"
    chance = random.Random(7)  # noqa: S311  # no secret
    gaps_s = [chance.expovariate(1000.0) for _ in range(calls)]
    assert max(found) >= sum(gaps_s[1:]) * 1e3, "the first request waited for all others to leave"
