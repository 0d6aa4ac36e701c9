"""Goals of the kernels, and their values in a run."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.kernels.lines import Line, Part, Suite
from benchmarks.kernels.measuring import geomean
from benchmarks.report import OUT

TARGETS: Mapping[Suite, float] = {
    Suite.CONVOLUTION: 1.7,
    Suite.FAST: 2.2,
    Suite.FORWARD: 1.15,
    Suite.RANDOM: 1.8,
    Suite.FLOAT16: 5.0,
    Suite.BFLOAT16: 1.7,
    Suite.FOLD: 3.5,
    Suite.UNFOLD: 3.0,
    Suite.FILTER: 1.8,
    Suite.THREADS: 1.8,
    Suite.END_TO_END: 1.0,
}
"""Targets of the geometric mean of each suite: PyTorch's seconds over opserve's."""

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


def goals_of(lines: Sequence[Line]) -> list[Goal]:
    """Returns all goals; those without a measurement have no value."""
    networks, drawn = (_ratios(lines, suite) for suite in (Suite.CONVOLUTION, Suite.RANDOM))
    better = geomean(_ratios(lines, Suite.CONVOLUTION, Part.ALL_BEST))
    return [
        _mean("fp32, all gradients, geomean over PyTorch NCHW", lines, Suite.CONVOLUTION),
        _found(
            "fp32, all gradients, geomean over the better of NCHW and channels last", better, 1.8
        ),
        _found("fp32, all gradients, slowest shape over NCHW", _least(networks), 1.0),
        _mean("fast (with Winograd), all gradients, geomean over NCHW", lines, Suite.FAST),
        _mean("forward with bias, geomean over NCHW", lines, Suite.FORWARD),
        _found(
            "forward with bias, slowest shape over NCHW",
            _least(_ratios(lines, Suite.FORWARD)),
            0.85,
        ),
        _mean("random shapes, geomean over NCHW", lines, Suite.RANDOM),
        _found("random shapes, slowest over NCHW", _least(drawn), 0.9),
        _mean("FLOAT16, all gradients, geomean", lines, Suite.FLOAT16),
        _mean("BF16, all gradients, geomean", lines, Suite.BFLOAT16),
        _mean("fold, geomean", lines, Suite.FOLD),
        _mean("unfold, geomean", lines, Suite.UNFOLD),
        _mean("filter gradient, geomean over channels last", lines, Suite.FILTER),
        _mean("2 threads, all gradients, geomean", lines, Suite.THREADS),
        _mean(
            "end to end, layers of at least 1 ms, geomean over PyTorch in process",
            lines,
            Suite.END_TO_END,
        ),
        *_errors(lines),
    ]


def write_goals(goals: Iterable[Goal]) -> Path:
    """Writes benchmarks/out/kernels.json."""
    OUT.mkdir(exist_ok=True)
    path = OUT / "kernels.json"
    rows = [asdict(goal) | {"met": goal.met} for goal in goals]
    path.write_text(json.dumps(rows, indent=2) + "\n")
    return path


def _ratios(lines: Iterable[Line], suite: Suite, part: Part = Part.ALL) -> list[float]:
    return [line.ratios[part].value for line in lines if line.suite == suite]


def _least(ratios: Sequence[float]) -> float | None:
    return min(ratios, default=None)


def _mean(goal: str, lines: Sequence[Line], suite: Suite) -> Goal:
    return _found(goal, geomean(_ratios(lines, suite)), TARGETS[suite])


def _found(goal: str, value: float | None, target: float) -> Goal:
    return Goal(
        goal=goal, value=value, target=target, reason=_NOT_MEASURED if value is None else ""
    )


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
