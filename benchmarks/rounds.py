"""Rounds: each measures every part of a benchmark once, the subject next to its yardstick."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.progress import track

from benchmarks.measure import Figure, figure
from benchmarks.report import Goal, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A quantity of one round."""

    subject: float
    yardstick: float


Part = Callable[[], Mapping[str, Pair]]
Rounds = Mapping[str, Sequence[Pair]]


def measure_rounds(parts: Sequence[Part], *, rounds: int) -> Rounds:
    """Returns the rounds of each quantity by name, after a round that warms up."""
    for part in parts:
        part()
    measured: dict[str, list[Pair]] = {}
    for _ in track(range(rounds), description=f"{rounds} rounds"):
        for part in parts:
            for name, pair in part().items():
                measured.setdefault(name, []).append(pair)
    return measured


def rows(measured: Rounds) -> list[Row]:
    """Returns a row for each quantity."""
    return [
        Row(
            what=name,
            subject=figure([pair.subject for pair in pairs]),
            yardstick=figure([pair.yardstick for pair in pairs]),
            ratio=ratio_of(pairs),
        )
        for name, pairs in measured.items()
    ]


def ratio_of(pairs: Sequence[Pair]) -> Figure:
    """Returns the ratio of subject to yardstick, computed for each round."""
    return figure([pair.subject / pair.yardstick for pair in pairs])


def at_least(target: float, text: str, pairs: Sequence[Pair]) -> Goal:
    """Returns a goal for a ratio that must reach the target."""
    return Goal(goal=text, value=ratio_of(pairs).value, target=target, better="higher")


def at_most(target: float, text: str, pairs: Sequence[Pair]) -> Goal:
    """Returns a goal for a ratio that must not exceed the target."""
    return Goal(goal=text, value=ratio_of(pairs).value, target=target, better="lower")


def at_most_itself(target: float, text: str, pairs: Sequence[Pair]) -> Goal:
    """A goal for the subject, in its unit, whatever the yardstick is."""
    value = figure([pair.subject for pair in pairs]).value
    return Goal(goal=text, value=value, target=target, better="lower")


def at_most_beyond(target: float, text: str, pairs: Sequence[Pair]) -> Goal:
    """Returns a goal for the difference of subject and yardstick, in their unit."""
    more = figure([pair.subject - pair.yardstick for pair in pairs]).value
    return Goal(goal=text, value=more, target=target, better="lower")
