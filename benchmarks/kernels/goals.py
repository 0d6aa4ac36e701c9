"""Goals of the kernels, and their values in a run."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, assert_never

from benchmarks.kernels.lines import Line, Part, Suite
from benchmarks.kernels.measuring import geomean
from benchmarks.kernels.regret import Regret
from benchmarks.machine import Family
from benchmarks.report import OUT

_NO_WINOGRAD = "no plan uses Winograd"
_NOT_MEASURED = "no such shape was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number with a target.

    Attributes:
        goal: Description of the number.
        value: The value; None without a measurement.
        target: The target.
        better: Whether the value must be higher or lower than the target.
        reason: Why there is no value.
    """

    goal: str
    value: float | None
    target: float
    better: Literal["higher", "lower"] = "higher"
    reason: str = ""

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


class _Row(NamedTuple):
    """A statistic of a part of a suite, with its targets."""

    goal: str
    suite: Suite
    intel: float
    zen_4: float
    statistic: Callable[[Sequence[float]], float | None] = geomean
    part: Part = Part.ALL

    def target(self, family: Family) -> float:
        """The target of a processor; of unknown families, the lower one."""
        match family:
            case Family.INTEL:
                return self.intel
            case Family.ZEN_4:
                return self.zen_4
            case Family.OTHER:
                return min(self.intel, self.zen_4)
            case _:
                assert_never(family)


def _slowest(ratios: Sequence[float]) -> float | None:
    return min(ratios, default=None)


_ROWS = (
    _Row("fp32, all gradients, geomean over PyTorch NCHW", Suite.CONVOLUTION, 1.70, 1.75),
    _Row("fp32, all gradients, slowest shape over NCHW", Suite.CONVOLUTION, 0.97, 1.0, _slowest),
    _Row(
        "fp32, all gradients, geomean over the better of NCHW and channels last",
        *(Suite.CONVOLUTION, 1.50, 1.60),
        part=Part.ALL_BEST,
    ),
    _Row("fast (with Winograd), all gradients, geomean over NCHW", Suite.FAST, 1.9, 2.1),
    _Row(
        "fast (with Winograd), all gradients, geomean over the better layout",
        *(Suite.FAST, 1.55, 1.8),
        part=Part.ALL_BEST,
    ),
    _Row("forward with bias, geomean over NCHW", Suite.FORWARD, 1.15, 1.15),
    _Row("forward with bias, slowest shape over NCHW", Suite.FORWARD, 0.85, 0.85, _slowest),
    _Row("random shapes, geomean over NCHW", Suite.RANDOM, 2.4, 2.5),
    _Row("random shapes, slowest over NCHW", Suite.RANDOM, 0.95, 0.95, _slowest),
    _Row("FLOAT16, all gradients, geomean", Suite.FLOAT16, 20.0, 11.0),
    _Row("BF16, all gradients, geomean", Suite.BFLOAT16, 2.4, 1.7),
    _Row("fold, geomean", Suite.FOLD, 4.8, 4.2),
    _Row("unfold, geomean", Suite.UNFOLD, 3.0, 3.0),
    _Row("filter gradient, geomean over channels last", Suite.FILTER, 1.08, 1.54),
    _Row(
        "2 threads, all gradients, geomean of the speed-up over that of multiply-add loops",
        *(Suite.THREADS, 0.9, 0.9),
        part=Part.OF_LOOPS,
    ),
    _Row(
        "end to end, layers of at least 1 ms, geomean over PyTorch in process",
        *(Suite.END_TO_END, 1.0, 1.0),
    ),
)


def mean_target(suite: Suite, family: Family) -> float | None:
    """Returns the target of the geometric mean of PyTorch's seconds over opserve's, if any."""
    for row in _ROWS:
        if (row.suite, row.part, row.statistic) == (suite, Part.ALL, geomean):
            return row.target(family)
    return None


def goals_of(lines: Sequence[Line], regrets: Sequence[Regret], family: Family) -> list[Goal]:
    """Returns all goals; those without a measurement have no value."""
    return [
        *(_goal(row, lines, family) for row in _ROWS),
        *_errors(lines),
        *_regrets([one.regret for one in regrets]),
    ]


def write_goals(goals: Iterable[Goal]) -> Path:
    """Writes benchmarks/out/kernels.json."""
    OUT.mkdir(exist_ok=True)
    path = OUT / "kernels.json"
    rows = [asdict(goal) | {"met": goal.met} for goal in goals]
    path.write_text(json.dumps(rows, indent=2) + "\n")
    return path


def _goal(row: _Row, lines: Iterable[Line], family: Family) -> Goal:
    of_suite = [line.ratios for line in lines if line.suite == row.suite]
    value = row.statistic([ratios[row.part].value for ratios in of_suite])
    reason = _NOT_MEASURED if value is None else ""
    return Goal(goal=row.goal, value=value, target=row.target(family), reason=reason)


def _regrets(found: Sequence[float]) -> list[Goal]:
    """Returns the goals of the choice among algorithms."""
    values = (
        ("time of the chosen algorithm over the best, geomean", geomean(found), 1.01),
        ("time of the chosen algorithm over the best, worst", max(found, default=None), 1.10),
    )
    return [
        Goal(
            goal=goal,
            value=value,
            target=target,
            better="lower",
            reason=_NOT_MEASURED if value is None else "",
        )
        for goal, value, target in values
    ]


def _errors(lines: Sequence[Line]) -> list[Goal]:
    """Returns the goals for each kind of algorithm in fp32."""
    exact = [line for line in lines if line.suite not in {Suite.FLOAT16, Suite.BFLOAT16}]
    kinds: tuple[tuple[str, float, str, Callable[[Line], bool]], ...] = (
        ("direct", 1e-6, _NOT_MEASURED, lambda line: not _uses_winograd(line)),
        ("Winograd", 2e-5, _NO_WINOGRAD, _uses_winograd),
    )
    goals: list[Goal] = []
    for kind, target, reason, belongs in kinds:
        worst = max((line.error for line in exact if belongs(line)), default=None)
        goals.append(
            Goal(
                goal=f"fp32 error relative to the largest value, {kind}",
                value=worst,
                target=target,
                better="lower",
                reason=reason if worst is None else "",
            )
        )
    return goals


def _uses_winograd(line: Line) -> bool:
    return "winograd" in line.algorithm.casefold()
