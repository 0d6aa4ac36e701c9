"""Output of benchmarks: tables for people, and goals as JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Figure

OUT = Path(__file__).resolve().parent / "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured quantity of the subject and of its yardstick."""

    what: str
    subject: Figure
    yardstick: Figure
    ratio: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number with a target."""

    goal: str
    value: float
    target: float
    better: Literal["higher", "lower"]

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


def show_rows(title: str, rows: Sequence[Row]) -> None:
    table = Table("opserve | yardstick", "opserve", "yardstick", "ratio", title=title)
    for row in rows:
        figures = [with_spread(found) for found in (row.subject, row.yardstick, row.ratio)]
        table.add_row(row.what, *figures)
    console().print(table)


def show_goals(goals: Sequence[Goal]) -> None:
    table = Table("goal", "value", "target", "met", title="goals")
    for goal in goals:
        sign = ">=" if goal.better == "higher" else "<="
        met = "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.goal, f"{goal.value:.2f}", f"{sign} {goal.target:g}", met)
    console().print(table)


def write_goals(name: str, goals: Sequence[Goal]) -> Path:
    """Writes benchmarks/out/<name>.json."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    rows = [asdict(goal) | {"met": goal.met} for goal in goals]
    path.write_text(json.dumps(rows, indent=2) + "\n")
    return path


def with_spread(found: Figure) -> str:
    """Formats a figure with its spread and rounds: "1.23 (1.20 to 1.31, n=7)"."""
    value, low, high = (short(number) for number in (found.value, found.low, found.high))
    return f"{value} ({low} to {high}, n={found.n})"


def short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def console() -> Console:
    return Console(width=150)
