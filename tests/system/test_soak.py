"""A short soak: `make soak` at work, and that it sees what grows."""

from dataclasses import replace

import pytest

from benchmarks.census import COUNTED, Census
from benchmarks.soak import GROWTH, judged, soak

pytestmark = pytest.mark.system
SECONDS = 20.0
FLAT = Census(
    front_mib=50, workers_mib=300, slabs_mib=4, memfds=8, descriptors=60, threads=18, processes=5
)


@pytest.mark.slow
def test_nothing_grows_in_a_short_soak() -> None:
    samples = soak(seconds=SECONDS, seed=7)
    assert len(samples) >= 2
    grown = {goal.goal: goal.value for goal in judged(samples) if not goal.met}
    assert grown == {}


@pytest.mark.parametrize("name", COUNTED)
def test_a_soak_finds_every_growth(name: str) -> None:
    step = GROWTH[name] / 10
    samples = [replace(FLAT, **{name: getattr(FLAT, name) + step * n}) for n in range(20)]
    assert [goal.goal.split()[2] for goal in judged(samples) if not goal.met] == [name]
