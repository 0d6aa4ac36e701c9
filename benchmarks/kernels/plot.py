"""The plot of a run: ratios of shapes, their shares of the peak, and the other suites."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from benchmarks.kernels.goals import mean_target
from benchmarks.kernels.lines import Line, Part, Suite
from benchmarks.kernels.measuring import geomean
from benchmarks.kernels.report import Setting, shares_of_peak
from benchmarks.report import OUT

Axes = Any
"""An object of matplotlib, which is not installed where the type checkers run."""

_OURS, _THEIRS, _BEST, _BEHIND = "#1f6f8b", "#b8bcc2", "#e08e0b", "#b3412e"


def draw(lines: Sequence[Line], setting: Setting) -> Path:
    """Writes benchmarks/out/kernels.png."""
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, (ratios, shares, suites) = pyplot.subplots(
        1, 3, figsize=(17, 9.5), layout="constrained", width_ratios=(3, 3, 2)
    )
    networks = [line for line in lines if line.suite == Suite.CONVOLUTION][::-1]
    _draw_ratios(ratios, networks, setting)
    _draw_shares(shares, networks, setting)
    _draw_suites(suites, lines, setting)
    figure.suptitle(
        f"opserve beside PyTorch: gradients of convolutions, one thread\n{setting.machine}; "
        f"{setting.versions}; medians of {setting.rounds} rounds",
        fontsize=11,
    )
    OUT.mkdir(exist_ok=True)
    path = OUT / "kernels.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def _draw_ratios(axes: Axes, lines: Sequence[Line], setting: Setting) -> None:
    found = [line.ratios[Part.ALL].value for line in lines]
    colours = [_OURS if ratio >= 1 else _BEHIND for ratio in found]
    # Bars begin at 1: opserve is faster to the right, and slower to the left.
    widths = [ratio - 1 for ratio in found]
    axes.barh(range(len(lines)), widths, left=1, color=colours, label="over NCHW")
    best = [line.ratios[Part.ALL_BEST].value for line in lines]
    axes.plot(best, range(len(lines)), "d", color=_BEST, ms=4, label="over the better layout")
    _name_rows(axes, [line.shape for line in lines])
    _show_ratios(axes, "x")
    mean = geomean(found)
    if mean is not None:
        axes.axvline(mean, color=_OURS, ls="--", lw=1, label=f"geometric mean {mean:.2f}")
    target = mean_target(Suite.CONVOLUTION, setting.family)
    if target is not None:
        axes.axvline(target, color="green", ls=":", lw=1.5, label=f"goal of the mean {target:g}")
    axes.axvline(1, color="black", lw=0.8)
    axes.set_title("all gradients, fp32: PyTorch's time over ours", fontsize=10)
    _explain(axes)


def _draw_shares(axes: Axes, lines: Sequence[Line], setting: Setting) -> None:
    shares = [shares_of_peak(line, setting) for line in lines]
    rows = range(len(lines))
    for place, (name, colour) in enumerate((("opserve", _OURS), ("PyTorch NCHW", _THEIRS))):
        heights = [row + 0.2 - 0.4 * place for row in rows]
        percents = [100 * share[place] for share in shares]
        axes.barh(heights, percents, height=0.4, color=colour, label=name)
    _name_rows(axes, [""] * len(lines))
    axes.axvline(100, color="black", lw=0.8)
    peak = f"{setting.peak / 1e9:.0f} GF/s"
    axes.set_title(f"operations, padding included, % of one core's peak ({peak})", fontsize=10)
    _explain(axes)


def _draw_suites(axes: Axes, lines: Sequence[Line], setting: Setting) -> None:
    """Draws each shape of a suite as a point, the mean as a line and the goal as a star."""
    for place, suite in enumerate(Suite):
        found = [line.ratios[Part.ALL].value for line in lines if line.suite == suite]
        mean = geomean(found)
        if mean is None:
            continue
        offsets = [place + 0.3 * (i / len(found) - 0.5) for i in range(len(found))]
        axes.plot(offsets, found, "o", color=_OURS, ms=4, alpha=0.5)
        axes.hlines(mean, place - 0.3, place + 0.3, color="black")
        axes.text(place, mean * 1.05, f"{mean:.2f}", ha="center", fontsize=9, weight="bold")
        target = mean_target(suite, setting.family)
        if target is not None:
            axes.plot([place], [target], "*", color="green", ms=10)
    names = [suite.value for suite in Suite]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=9)
    axes.axhline(1, color="black", lw=0.8)
    _show_ratios(axes, "y")
    axes.set_title("all suites: shapes, geometric mean, goal (star)", fontsize=10)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(axis="x", alpha=0.3)


def _explain(axes: Axes) -> None:
    """Draws the legend below the axis."""
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.035), ncols=4)


def _show_ratios(axes: Axes, name: Literal["x", "y"]) -> None:
    """Sets plain numbers on a logarithmic axis."""
    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    ticker: Any = import_module("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(alpha=0.3)
