"""Output of a run: tables of shapes and of goals, and all numbers as CSV."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.kernels.goals import Goal
from benchmarks.kernels.lines import MOVED, THREADS, Line, Part, Suite
from benchmarks.kernels.measuring import geomean
from benchmarks.machine import Family
from benchmarks.report import OUT, console

_TITLES = {
    Suite.CONVOLUTION: "convolutions of networks, fp32",
    Suite.FAST: "convolutions of networks, fp32, accuracy fast (with Winograd)",
    Suite.FORWARD: "convolutions and transposed ones of networks, forward with bias, fp32",
    Suite.RANDOM: "convolutions drawn at random, fp32",
    Suite.FLOAT16: "FLOAT16, one image",
    Suite.BFLOAT16: "BF16, one image",
    Suite.FOLD: "folds: im2col_backward | col2im",
    Suite.UNFOLD: "unfolds: im2col | im2col",
    Suite.THREADS: "convolutions of networks, fp32, two threads: least of the rounds by the clock",
    Suite.END_TO_END: "session.run, NumPy arrays to NumPy arrays, fp32, by the clock",
    Suite.SMALL: "session.run of calls that take PyTorch less than 1 ms, by the clock",
    Suite.FILTER: "filter gradients with channels last: deconv_grad_filter | convolution_backward",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The setting of a run.

    Attributes:
        machine: Processor of the machine.
        family: Its family, which has goals of its own.
        versions: Versions of the compared packages.
        peak: Measured peak of one core, in operations per second.
        rounds: Number of rounds.
    """

    machine: str
    family: Family
    versions: str
    peak: float
    rounds: int

    @property
    def title(self) -> str:
        return (
            f"{self.machine}; {self.versions}; peak of one core {self.peak / 1e9:.1f} GF/s in "
            "fp32, measured; one thread, CPU time of the thread, by turns, medians of "
            f"{self.rounds} rounds. "
            "Ratios are PyTorch's seconds over ours; all gradients are grad_input, grad_weight and "
            "grad_bias, NCHW. Results are allocated on both sides; plans are cached on ours."
        )


def show_lines(lines: Sequence[Line], setting: Setting) -> None:
    """Prints a table for each suite, with the geometric means of its ratios."""
    console().print(setting.title)
    for suite in Suite:
        of_suite = [line for line in lines if line.suite == suite]
        if of_suite:
            console().print(_table(suite, of_suite, setting))


def show_goals(goals: Sequence[Goal]) -> None:
    table = Table("goal", "value", "target", "met", "why there is no value", title="goals")
    for goal in goals:
        sign = ">=" if goal.better == "higher" else "<="
        value = "-" if goal.value is None else f"{goal.value:.3g}"
        met = "[green]yes[/]" if goal.met else "[red]no[/]"
        table.add_row(goal.goal, value, f"{sign} {goal.target:g}", met, goal.reason)
    console().print(table)


def write_lines(lines: Sequence[Line], setting: Setting) -> Path:
    """Writes benchmarks/out/kernels.csv."""
    OUT.mkdir(exist_ok=True)
    path = OUT / "kernels.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _fields(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_row(line, setting) for line in lines)
    return path


def _table(suite: Suite, lines: Sequence[Line], setting: Setting) -> Table:
    parts = [part for part in Part if part in lines[0].ratios]
    unit = "GB/s" if suite in MOVED else "GF/s"
    table = Table(title=_TITLES[suite])
    table.add_column("shape", no_wrap=True)
    table.add_column("algorithm")
    numbers = [
        f"ours, {unit}",
        f"theirs, {unit}",
        *(part.value.replace("_", " ") for part in parts),
    ]
    if suite not in MOVED:
        numbers += ["% of peak", "theirs"]
    for name in (*numbers, "error", "theirs"):
        table.add_column(name, justify="right")
    for line in lines:
        name = f"{line.shape}: {line.text}" if suite == Suite.RANDOM else line.shape
        table.add_row(name, line.algorithm or "-", *_numbers(line, parts, setting))
    means = [geomean([line.ratios[part].value for line in lines]) or 0 for part in parts]
    table.add_section()
    table.add_row("geometric mean", "", "", "", *(f"{mean:.2f}" for mean in means))
    return table


def _numbers(line: Line, parts: Sequence[Part], setting: Setting) -> list[str]:
    cells = [f"{rate:.1f}" for rate in (line.ours_rate, line.their_rate)]
    cells += [_coloured(line.ratios[part].value) for part in parts]
    if line.suite not in MOVED:
        cells += [f"{100 * share:.0f}" for share in shares_of_peak(line, setting)]
    return [*cells, f"{line.error:.0e}", f"{line.their_error:.0e}"]


def shares_of_peak(line: Line, setting: Setting) -> tuple[float, float]:
    """Returns the shares of the cores' peak that opserve and PyTorch reach."""
    peak = setting.peak * (THREADS if line.suite == Suite.THREADS else 1)
    return line.ours_rate * 1e9 / peak, line.their_rate * 1e9 / peak


def _coloured(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 1 else f"[red]{ratio:.2f}[/]"


def _fields() -> list[str]:
    spreads = [f"{part.value}{end}" for part in Part for end in ("", "_low", "_high")]
    plain = ["suite", "shape", "text", "algorithm", "work", "ours_s", "theirs_s", "rounds"]
    return [*plain, *spreads, "share_of_peak", "their_share_of_peak", "error", "their_error"]


def _row(line: Line, setting: Setting) -> dict[str, object]:
    row: dict[str, object] = {
        "suite": line.suite.value,
        "shape": line.shape,
        "text": line.text,
        "algorithm": line.algorithm,
        "work": line.work,
        "ours_s": line.ours_s,
        "theirs_s": line.theirs_s,
        "rounds": line.ratios[Part.ALL].n,
        "error": line.error,
        "their_error": line.their_error,
    }
    for part, found in line.ratios.items():
        row |= {
            part.value: found.value,
            f"{part.value}_low": found.low,
            f"{part.value}_high": found.high,
        }
    if line.suite not in MOVED:
        shares = shares_of_peak(line, setting)
        row |= dict(zip(("share_of_peak", "their_share_of_peak"), shares, strict=True))
    return row
