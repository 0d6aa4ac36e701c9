"""Series: points in steps of a second, from totals and gauges."""

import asyncio
from array import array
from dataclasses import dataclass, field

import pytest

from kernels.iterations import Iterations
from opserve_server.core.errors import InvalidArgument, PermissionDenied
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.series import LABELS_LIMIT, POINTS, SERIES, Sample, Series
from server.core.caller import Caller

TOTAL, GAUGE = "device_calls_per_s", "device_sessions"
AT = 1_764_000_000.0
END = "2025-11-24T16:00:00+00:00"


@dataclass
class Source:
    """A series with samples of the test's own."""

    samples: list[Sample] = field(default_factory=list[Sample])
    series: Series = field(default_factory=lambda: Series(lambda: AT))

    def __post_init__(self) -> None:
        self.series.add_source(lambda: self.samples)

    def tick(self, *samples: Sample) -> None:
        self.samples = list(samples)
        self.series.tick()

    def points(self, name: str, label: str = "d", last_s: int = 0) -> list[float]:
        return self.series.of(LOCAL, name, last_s=last_s).series[name][label]


async def test_a_total_becomes_its_increase_per_second_and_a_gauge_its_value() -> None:
    source = Source()
    for total, gauge in ((3, 5.0), (3, 6.0), (10, 0.0)):
        source.tick((TOTAL, "d", total), (GAUGE, "d", gauge))
        await asyncio.sleep(1)
    assert source.points(TOTAL) == [3.0, 0.0, 7.0]
    assert source.points(GAUGE) == [5.0, 6.0, 0.0]
    assert source.series.latest(TOTAL, "d") == 7.0
    assert source.series.latest(TOTAL, "none") == 0.0


async def test_points_have_their_step_and_the_time_of_the_last_one() -> None:
    source = Source()
    source.tick((GAUGE, "d", 1.0))
    found = source.series.of(LOCAL, GAUGE, last_s=1)
    assert (found.step_s, found.end, found.series) == (1.0, END, {GAUGE: {"d": [1.0]}})


async def test_a_second_without_a_tick_has_a_point_and_one_second_has_no_two() -> None:
    source = Source()
    source.tick((TOTAL, "d", 0), (GAUGE, "d", 2.0))
    source.tick((TOTAL, "d", 4), (GAUGE, "d", 3.0))
    assert source.points(GAUGE) == [2.0]
    await asyncio.sleep(4)
    source.tick((TOTAL, "d", 8), (GAUGE, "d", 4.0))
    assert source.points(TOTAL) == [0.0, 2.0, 2.0, 2.0, 2.0]
    assert source.points(GAUGE) == [2.0, 4.0, 4.0, 4.0, 4.0]


async def test_a_label_that_comes_later_has_zeros_before_and_all_have_equally_many() -> None:
    source = Source()
    source.tick((GAUGE, "d", 1.0))
    await asyncio.sleep(1)
    source.tick((GAUGE, "late", 9.0))
    assert source.points(GAUGE, "late") == [0.0, 9.0]
    assert source.points(GAUGE) == [1.0, 1.0]


async def test_ten_minutes_are_kept_and_the_wanted_seconds_returned() -> None:
    source = Source()
    for second in range(POINTS + 3):
        source.tick((GAUGE, "d", float(second)))
        await asyncio.sleep(1)
    assert source.points(GAUGE, last_s=POINTS) == [float(n) for n in range(3, POINTS + 3)]
    assert source.points(GAUGE, last_s=2) == [float(POINTS + 1), float(POINTS + 2)]
    assert len(source.points(GAUGE)) == 300
    await asyncio.sleep(10 * POINTS)
    source.tick((GAUGE, "d", 7.0))
    assert source.points(GAUGE, last_s=POINTS) == [7.0] * POINTS
    label = source.series._labels[GAUGE]["d"]
    assert isinstance(label.points, array)
    assert len(label.points) * label.points.itemsize == 4800, "of 200 KB for forty labels"


async def test_reading_many_points_takes_few_iterations() -> None:
    source = Source()
    source.tick(*((GAUGE, f"{n}", 1e9 / 3) for n in range(LABELS_LIMIT)))
    await asyncio.sleep(POINTS)
    source.tick()
    with Iterations() as iterations:
        found = source.series.of(LOCAL, GAUGE, last_s=POINTS).series[GAUGE]
    assert [len(points) for points in found.values()] == [POINTS] * LABELS_LIMIT
    assert found["0"][-1] == 333333000.0
    assert iterations.count <= 2 * LABELS_LIMIT + 10


async def test_labels_are_bounded() -> None:
    source = Source()
    source.tick(*((GAUGE, f"{n}", 1.0) for n in range(LABELS_LIMIT + 5)))
    found = source.series.of(LOCAL, GAUGE, last_s=1).series[GAUGE]
    assert len(found) == LABELS_LIMIT


async def test_several_series_are_named_and_none_means_all_of_the_callers_scopes() -> None:
    series = Series()
    names = f"{TOTAL},{GAUGE}"
    assert list(series.of(LOCAL, names, last_s=1).series) == [TOTAL, GAUGE]
    for scope in Scope:
        caller = Principal(tenant="t", name="n", scopes=frozenset({scope}))
        found = series.of(caller, "", last_s=1).series
        wanted = {name for name, kind in SERIES.items() if scope in {kind.scope, Scope.ADMIN}}
        assert found.keys() == wanted
        for name in SERIES.keys() - wanted:
            with pytest.raises(PermissionDenied, match=SERIES[name].scope.value):
                series.of(caller, name, last_s=1)


@pytest.mark.parametrize(
    ("names", "last_s", "parameter"),
    [("device_session", 1, "name"), (f"{GAUGE},", 1, "name"), ("x" * 9999, 1, "name")]
    + [(GAUGE, given, "last_s") for given in (-1, POINTS + 1)],
)
async def test_another_name_or_number_is_refused(names: str, last_s: int, parameter: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        Series().of(LOCAL, names, last_s=last_s)
    assert refusal.value.parameter == parameter
    assert len(refusal.value.message) < 500


async def test_a_device_is_busy_while_it_has_a_call(caller: Caller) -> None:
    await caller.service.tick()
    call = await caller.repeatable()
    await caller.service.submit(LOCAL, caller.name, [call, call])
    await asyncio.sleep(0.25)
    caller.device.finish(caller.device.held[0])
    await asyncio.sleep(0.5)
    caller.device.finish(caller.device.held[0])
    await asyncio.sleep(0.25)
    await caller.service.tick()
    found = caller.service.get_series(LOCAL, "", last_s=1).series
    (device,) = found["device_busy_share"]
    assert found["device_busy_share"][device] == [0.75]
    assert found["device_calls_per_s"][device] == [2.0]
    assert found["device_sessions"][device] == [1.0]
    free_bytes = caller.device.slabs.free_bytes
    assert found["device_used_memory_bytes"][device] == [caller.device.memory_bytes - free_bytes]
    assert found["waiting_requests"] == {caller.device.profile: [0.0]}


async def test_a_call_counts_as_busy_before_it_ends(caller: Caller) -> None:
    await caller.service.tick()
    call = await caller.repeatable()
    await caller.service.submit(LOCAL, caller.name, [call, call, call, call])
    await asyncio.sleep(1)
    await caller.service.tick()
    found = caller.service.get_series(LOCAL, "", last_s=1).series
    assert found["device_busy_share"][caller.device.name] == [1.0]
    assert found["device_calls_per_s"][caller.device.name] == [0.0]
    assert found["device_queued_entries"][caller.device.name] == [2.0]
