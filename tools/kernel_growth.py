"""make pictures: draws docs/pictures/kernels-growth.svg, the time of algorithms over their work."""

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
LINES = (
    ("ours_s", "opserve", "#1f6f8b", "o-"),
    ("theirs_s", "PyTorch", "#e08e0b", "s-"),
    ("roof_s", "roof", "#2b2d33", "-"),
    ("model_s", "cost model", "#b3412e", "--"),
)
COLUMNS = 4

Row = dict[str, str]


def main() -> None:
    """Draws the points that make bench-kernels ARGS=--growth has measured."""
    pyplot: Any = import_module("matplotlib.pyplot")
    pyplot.rcParams.update({"svg.hashsalt": "opserve", "svg.fonttype": "none", "font.size": 9})
    with (FOLDER / "kernels-growth.csv").open(newline="") as file:
        points = list(csv.DictReader(file))
    names = list(dict.fromkeys(point["name"] for point in points))
    figure, panels = pyplot.subplots(
        2, COLUMNS, figsize=(15, 7), sharex=True, sharey=True, layout="constrained"
    )
    for axes, name in zip(panels.flat, names, strict=True):
        draw(axes, [point for point in points if point["name"] == name])
    for axes in panels[-1]:
        axes.set_xlabel("multiply-adds")
    for axes in panels[:, 0]:
        axes.set_ylabel("seconds")
    panels.flat[0].legend(fontsize=9)
    figure.suptitle(f"time over work, one thread: {points[0]['machine']}")
    figure.savefig(FOLDER / "kernels-growth.svg", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)


def draw(axes: Any, points: list[Row]) -> None:  # noqa: ANN401  # matplotlib's
    """Draws the lines of one algorithm."""
    work = [float(point["work"]) for point in points]
    for field, label, colour, style in LINES:
        seconds = [float(point[field]) for point in points]
        axes.plot(work, seconds, style, color=colour, label=label, ms=3.5, lw=1.3)
    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.set_title(f"{points[0]['name']}\n{points[0]['family']}", fontsize=9)


if __name__ == "__main__":
    main()
