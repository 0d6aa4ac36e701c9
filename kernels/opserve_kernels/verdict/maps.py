"""Used fractions of an output's tolerance: a histogram, and maps by axes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.verdict.verdict import Bin, HeatMap

SPATIAL_AXES = ("d", "h", "w")
TAP_AXES = ("kd", "kh", "kw")
CELLS = 1024  # cells of a map: a page can show them, and they take 10 kB of JSON
_BINS = (
    ("none", 0.0),
    ("up to 1 %", 0.01),
    ("up to 10 %", 0.1),
    ("up to 25 %", 0.25),
    ("up to 50 %", 0.5),
    ("up to 75 %", 0.75),
    ("up to 100 %", 1.0),
    ("up to 2 times", 2.0),
    ("up to 10 times", 10.0),
    ("up to 100 times", 100.0),
    ("more", float(np.finfo(np.float64).max)),
    ("infinite", float("inf")),
)
BIN_ENDS = np.array([most for _, most in _BINS])


def counted(used: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of elements in each bin."""
    return np.bincount(np.searchsorted(BIN_ENDS, used, side="left"), minlength=BIN_ENDS.size)


def bins(counts: NDArray[np.int64]) -> tuple[Bin, ...]:
    """The histogram of counts."""
    return tuple(
        Bin(name=name, most=most, elements=int(count))
        for (name, most), count in zip(_BINS, counts, strict=True)
    )


def heat_maps(used: NDArray[np.float32], axes: Sequence[str]) -> tuple[HeatMap, ...]:
    """The maps over planes, over positions and over taps, for the axes that an output has.

    Args:
        used: Used fractions, an axis for each name.
        axes: Names of the axes. d, h and w are positions, kd, kh and kw taps of the kernel; all
            others together count planes.
    """
    if used.size == 0:
        return ()
    return tuple(_map(used, axes, kept) for kept in _groups(axes))


def _groups(axes: Sequence[str]) -> Iterator[tuple[int, ...]]:
    kinds = [
        "tap" if name in TAP_AXES else "position" if name in SPATIAL_AXES else "plane"
        for name in axes
    ]
    for kind in ("plane", "position", "tap"):
        kept = tuple(i for i, found in enumerate(kinds) if found == kind)
        if kept:
            yield kept


def _map(used: NDArray[np.float32], axes: Sequence[str], kept: tuple[int, ...]) -> HeatMap:
    others = tuple(i for i in range(used.ndim) if i not in kept)
    worst: NDArray[np.float32] = used.max(axis=others)
    sizes = worst.shape
    steps = _steps(sizes)
    for axis, step in enumerate(steps):
        starts: NDArray[np.intp] = np.array(range(0, sizes[axis], step))
        worst = np.maximum.reduceat(worst, starts, axis=axis)
    return HeatMap(
        axes=tuple(axes[i] for i in kept),
        sizes=sizes,
        steps=steps,
        shape=worst.shape,
        values=tuple(float(f"{value:.3g}") for value in worst.ravel()),
    )


def _steps(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Entries for each cell along each axis, so that a map has few enough cells."""
    steps = [1] * len(sizes)
    cells = list(sizes)
    while np.prod(cells, dtype=float) > CELLS:
        longest = cells.index(max(cells))
        steps[longest] += 1
        cells[longest] = -(-sizes[longest] // steps[longest])
    return tuple(steps)
