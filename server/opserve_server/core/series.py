"""Series: counters and gauges of the latest ten minutes, in steps of one second."""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from opserve_kernels.status import Status
from opserve_kernels.user_input import choices
from opserve_server.core.errors import InvalidArgument, PermissionDenied
from opserve_server.core.principal import Principal, Scope

STEP_S = 1.0
POINTS = 600
"""Points kept of each label: ten minutes."""
LAST_S = 300
"""Seconds of the past that a caller gets by default."""
LABELS_LIMIT = 64
"""Labels of one series; samples of more are dropped."""
_DIGITS = 6
"""Significant digits of a point."""
Sample = tuple[str, str, float]
"""Name of a series, label and value."""
Read = Callable[[], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class SeriesKind:
    """A series.

    Attributes:
        help: Text for readers of the documentation.
        label: Meaning of its labels.
        is_rate: Whether its points are increases of a total per second, and not values of a gauge.
        scope: Scope that a caller needs to read it.
    """

    help: str
    label: str
    is_rate: bool = False
    scope: Scope = Scope.OPERATE


SERIES: Mapping[str, SeriesKind] = {
    "device_busy_share": SeriesKind(
        "Share of each second in which the device had a call, 0 to 1.", "device", is_rate=True
    ),
    "device_calls_per_s": SeriesKind("Calls that ended at the device.", "device", is_rate=True),
    "device_queued_entries": SeriesKind("Queued entries of streams.", "device"),
    "device_sessions": SeriesKind("Open sessions.", "device"),
    "device_used_memory_bytes": SeriesKind("Device memory of sessions.", "device"),
    "waiting_requests": SeriesKind("Session requests in the device queue.", "profile"),
    "calls_per_s": SeriesKind("Calls by API.", "API", is_rate=True, scope=Scope.METRICS),
    "call_p50_s": SeriesKind(
        "Median time of the calls of each second, by API; 0 without a call.",
        "API",
        scope=Scope.METRICS,
    ),
    "call_p99_s": SeriesKind("The 99th percentile, by API.", "API", scope=Scope.METRICS),
    "copied_bytes_per_s": SeriesKind(
        "Bytes in from clients and out to them, by transport.",
        "direction and transport",
        is_rate=True,
        scope=Scope.METRICS,
    ),
}
"""Every series by name. Those of scope operate are sums over all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoints:
    """Points of series, the oldest first.

    Attributes:
        step_s: Seconds between two points.
        end: Time of the last point, ISO 8601 in UTC.
        series: Points by series and label.
    """

    step_s: float
    end: str
    series: Mapping[str, Mapping[str, list[float]]]


@dataclass(slots=True, eq=False)
class _Label:
    """A label of a series.

    Attributes:
        points: Its points, the oldest first; all labels have equally many.
        value: Its latest sample.
        before: The sample of the step before.
    """

    points: "array[float]"
    value: float = 0.0
    before: float = 0.0

    def add(self, steps: int, *, elapsed_s: float, is_rate: bool) -> None:
        """Adds equal points for some steps."""
        point = (self.value - self.before) / elapsed_s if is_rate else self.value
        self.before = self.value
        # Rounded once and not for each reader, who may read tens of thousands of points.
        self.points.extend([float(f"{point:.{_DIGITS}g}")] * steps)
        del self.points[:-POINTS]


class Series:
    """The latest points of every series, from sources that are read once in a step.

    Args:
        wall_clock: Seconds since 1970.
    """

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._sources: list[Read] = []
        self._labels: dict[str, dict[str, _Label]] = {name: {} for name in SERIES}
        self._count = 0
        self._began_s: float | None = None
        self._read_s = 0.0
        self._end = wall_clock()

    def add_source(self, read: Read) -> None:
        """Adds a function that returns samples; totals begin at 0."""
        self._sources.append(read)

    def tick(self) -> None:
        """Adds a point for each step since the last one; does nothing within the same step."""
        now_s = asyncio.get_running_loop().time()
        if self._began_s is None:
            self._began_s = self._read_s = now_s - STEP_S
        steps = int((now_s - self._began_s) / STEP_S) - self._count
        if steps < 1:
            return
        for read in self._sources:
            for name, label, value in read():
                self._take(name, label, value)
        elapsed_s, self._read_s = now_s - self._read_s, now_s
        self._count += steps
        self._end = self._wall_clock()
        for name, kind in SERIES.items():
            for one in self._labels[name].values():
                one.add(min(steps, POINTS), elapsed_s=elapsed_s, is_rate=kind.is_rate)

    def latest(self, name: str, label: str) -> float:
        """The last point of a label; 0 without one."""
        found = self._labels[name].get(label)
        return 0.0 if found is None else found.points[-1]

    def of(self, principal: Principal, names: str, *, last_s: int) -> SeriesPoints:
        """Points of series.

        Args:
            principal: The caller.
            names: Their names, separated by commas; empty: all that the caller may read.
            last_s: Seconds of the past; 0: LAST_S.

        Raises:
            InvalidArgument: 100000, there is no such series, or there are fewer points.
            PermissionDenied: 207006, the caller lacks the scope of a named series.
        """
        wanted = names.split(",", len(SERIES)) if names else _readable(principal)
        for name in wanted:
            _check(principal, name)
        if not 0 <= last_s <= POINTS:
            raise _refused("last_s", given=last_s, allowed=f"0 to {POINTS}")
        return SeriesPoints(
            step_s=STEP_S,
            end=datetime.fromtimestamp(self._end, UTC).isoformat(timespec="seconds"),
            series={
                name: {
                    label: one.points[-(last_s or LAST_S) :].tolist()
                    for label, one in self._labels[name].items()
                }
                for name in wanted
            },
        )

    def _take(self, name: str, label: str, value: float) -> None:
        labels = self._labels[name]
        if label not in labels and len(labels) < LABELS_LIMIT:
            labels[label] = _Label(array("d", [0.0]) * min(self._count, POINTS))
        if label in labels:
            labels[label].value = value


def _check(principal: Principal, name: str) -> None:
    if name not in SERIES:
        raise _refused("name", given=name[:64], allowed=choices(SERIES, name[:64]))
    if not _may_read(principal, SERIES[name]):
        scope = SERIES[name].scope
        raise PermissionDenied(principal, scope=f"the scope {scope.value}")


def _readable(principal: Principal) -> list[str]:
    return [name for name, kind in SERIES.items() if _may_read(principal, kind)]


def _refused(parameter: str, *, given: object, allowed: object) -> InvalidArgument:
    status = Status.ACL_ERROR_INVALID_PARAM
    return InvalidArgument(status, parameter=parameter, given=given, allowed=allowed)


def _may_read(principal: Principal, kind: SeriesKind) -> bool:
    return not principal.scopes.isdisjoint({kind.scope, Scope.ADMIN})
