"""Every element of an output against its expected value, chunk by chunk."""

from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.verdict import exact, rounding
from opserve_kernels.verdict.dtypes import Doubles, ulps, widened
from opserve_kernels.verdict.maps import BIN_ENDS, counted
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.verdict import Element

LISTED = 10  # elements that a verdict lists, of the first and of the worst
CHUNK = 1 << 16  # elements: 512 KiB of float64, so that temporaries stay in a core's cache
Rule = exact.Exact | rounding.Rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An element to list: its position in a flat output, fraction and rank."""

    position: int
    used: float
    rank: float


@dataclass(slots=True, kw_only=True)
class Found:
    """Results for the elements surveyed so far.

    Attributes:
        used: Fractions of all elements: float32 is enough for maps.
        errors: Elements beyond the tolerance.
        unexplained: Elements beyond the bound that holds in any order of summation.
        worst: The greatest used fraction.
        counts: Counts of the histogram.
        first: The first errors.
        greatest: The worst errors; without errors, the worst element.
    """

    used: NDArray[np.float32]
    errors: int = 0
    unexplained: int = 0
    worst: float = 0.0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BIN_ENDS.size, np.int64))
    first: list[Place] = field(default_factory=list[Place])
    greatest: list[Place] = field(default_factory=list[Place])


def survey(pair: Pair, rule: Rule) -> Found:
    """Surveys every element."""
    flat = Pair(
        given=pair.given.reshape(-1), expected=pair.expected.reshape(-1), overflow=pair.overflow
    )
    if isinstance(rule, rounding.Rounding):
        rule = replace(rule, magnitude=rule.magnitude.reshape(-1))
    found = Found(used=np.empty(pair.expected.size, np.float32))
    for start in range(0, pair.expected.size, CHUNK):
        part = slice(start, start + CHUNK)
        with np.errstate(invalid="ignore", over="ignore"):
            match rule:
                case exact.Exact():
                    seen = _exactly(flat, part)
                case rounding.Rounding():
                    seen = _rounded(flat, rule, part)
                case _:
                    assert_never(rule)
            _note(found, start, seen)
    return found


def element(pair: Pair, place: Place) -> Element:
    """The verdict's record of an element."""
    index = tuple(int(i) for i in np.unravel_index(place.position, pair.expected.shape))
    exactly, got = float(pair.expected[index]), pair.given[index].reshape(1)
    right = exact.as_stored(np.array([exactly]), pair.dtype, pair.overflow)
    apart = float(ulps(got, right, pair.dtype)[0])
    value = float(widened(got)[0])
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.abs(np.float64(value) - exactly)
        relative = absolute / np.abs(exactly) if absolute else absolute
    return Element(
        index=index,
        exact=exactly,
        expected=float(right.astype(np.float64)[0]),
        got=value,
        absolute=float(absolute),
        relative=float(relative),
        used=place.used,
        ulp=int(apart) if np.isfinite(apart) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A chunk: used fractions, errors, their ranks, and the number beyond any order's bound."""

    used: Doubles
    wrong: NDArray[np.intp]
    rank: Doubles
    unexplained: int


def _exactly(flat: Pair, part: slice) -> _Seen:
    given, expected = flat.given[part].astype(np.float64), flat.expected[part]
    used = exact.used_fractions(given, expected, flat.dtype, flat.overflow)
    wrong = np.flatnonzero(used)
    rank = np.nan_to_num(np.abs(given[wrong] - expected[wrong]), nan=np.inf)
    return _Seen(used=used, wrong=wrong, rank=rank, unexplained=wrong.size)


def _rounded(flat: Pair, rule: rounding.Rounding, part: slice) -> _Seen:
    given, expected = flat.given[part].astype(np.float64), flat.expected[part]
    size = rule.magnitude[part]
    limit = rounding.limits(rule, flat.dtype, flat.overflow)
    used = rounding.used_fractions(given, expected, size, limit)
    wrong = np.flatnonzero(used > 1)
    proven = rounding.proven_limits(rule, flat.dtype, flat.overflow)
    beyond = rounding.used_fractions(given[wrong], expected[wrong], size[wrong], proven) > 1
    return _Seen(
        used=used, wrong=wrong, rank=used[wrong], unexplained=int(np.count_nonzero(beyond))
    )


def _note(found: Found, start: int, seen: _Seen) -> None:
    """Adds a chunk that begins at a position to the results."""
    used, wrong = seen.used, seen.wrong
    found.used[start : start + used.size] = used
    found.counts += counted(used)
    worst = int(np.argmax(used))
    if wrong.size:
        most = np.argpartition(-seen.rank, min(LISTED, wrong.size) - 1)[:LISTED]
        worse = [_place(start, int(wrong[i]), used, float(seen.rank[i])) for i in most]
        known = [*(found.greatest if found.errors else []), *worse]
        found.greatest = sorted(known, key=lambda place: (-place.rank, place.position))[:LISTED]
        room = LISTED - len(found.first)
        found.first += [_place(start, int(i), used, 0.0) for i in wrong[:room]]
    elif not found.errors and (used[worst] > found.worst or not found.greatest):
        found.greatest = [_place(start, worst, used, 0.0)]
    found.errors += wrong.size
    found.unexplained += seen.unexplained
    found.worst = max(found.worst, float(used[worst]))


def _place(start: int, position: int, used: Doubles, rank: float) -> Place:
    return Place(position=start + position, used=float(used[position]), rank=rank)
