"""Regret of the choice among algorithms: time of the chosen one over the best, each one forced."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.kernels.arrays import convolution_arrays
from benchmarks.kernels.measuring import by_turns, geomean
from benchmarks.kernels.shapes import ConvolutionShape
from benchmarks.kernels.subject import DIRECT, Call, Mask, gradients_call
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

_MASKS: tuple[Mask, ...] = ((True, False, False), (False, True, False))
_SLOW = "columns"  # computes any geometry, and is chosen only where nothing else can
_NOTHING = "image: nothing"  # a name of no algorithm
_LISTED = 1.03  # a regret above this is listed
COUNT = 60
"""Random shapes besides those of networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """One gradient of a shape.

    Attributes:
        shape: Name of the shape.
        chosen: The algorithm that the plan chose.
        best: The fastest algorithm.
        regret: Time of the chosen one over that of the best one.
    """

    shape: str
    chosen: str
    best: str
    regret: float


def regrets(
    shapes: Sequence[ConvolutionShape], rounds: int, options: PlanOptions = DIRECT
) -> Iterator[Regret]:
    """Yields the regrets of both gradients of each shape, if there is a choice."""
    for shape in shapes:
        arrays = convolution_arrays(shape, DataType.FLOAT)
        for mask in _MASKS:
            chosen = gradients_call(shape, arrays, DataType.FLOAT, mask, options)
            ways = [way for way in _possible(shape, mask, options) if not way.endswith(_SLOW)]
            if len(ways) < 2 or chosen.algorithm not in ways:
                continue
            calls: dict[str, Call] = {
                way: gradients_call(
                    shape, arrays, DataType.FLOAT, mask, replace(options, algorithms=(way,))
                )
                for way in ways
            }
            samples = by_turns(calls, rounds)
            times = {way: median(samples[way]) for way in ways}
            best = min(times, key=times.__getitem__)
            regret = times[chosen.algorithm] / times[best]
            yield Regret(shape=shape.name, chosen=chosen.algorithm, best=best, regret=regret)


def show_regrets(found: Sequence[Regret]) -> None:
    """Prints the geometric mean, and the wrong choices, the worst first."""
    table = Table("shape", "chosen", "best", "chosen / best")
    for one in sorted(found, key=lambda one: -one.regret):
        if one.regret > _LISTED:
            table.add_row(one.shape, one.chosen, one.best, f"{one.regret:.2f}")
    console = Console()
    console.print(table)
    mean = geomean([one.regret for one in found])
    console.print(f"{len(found)} choices, geometric mean of chosen / best: {mean:.3f}")


def _possible(shape: ConvolutionShape, mask: Mask, options: PlanOptions) -> list[str]:
    """Returns the algorithms of a gradient, from the refusal of any other."""
    try:
        gradients_call(shape, {}, DataType.FLOAT, mask, replace(options, algorithms=(_NOTHING,)))
    except InvalidArgument as refusal:
        return refusal.allowed.partition(": ")[2].split(", ")
    raise AssertionError("there is no algorithm of that name")
