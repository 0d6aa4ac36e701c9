"""Growth of an algorithm's time with the work, beside PyTorch, the roof and the cost model."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.kernels import subject
from benchmarks.kernels.arrays import Array, convolution_arrays
from benchmarks.kernels.measuring import by_turns
from benchmarks.kernels.shapes import ConvolutionShape, convolution
from opserve_kernels.algorithms.names import Algorithm, named
from opserve_kernels.algorithms.winograd.cost import MULTIPLY_ADD
from opserve_kernels.convolution import Convolution, three
from opserve_kernels.costs import product_cost
from opserve_kernels.gradients import Product
from opserve_kernels.tensor import DataType

PATH = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "kernels-growth.csv"
"""Read by make pictures."""

_LEAST, _MOST = 1e4, 1e10  # multiply-adds of a family's smallest and largest shape
_STEPS = 13  # shapes of a family, two a decade
_MOST_BYTES = 1 << 28  # of the largest tensor: beyond it, copies of both sides exceed the memory


GradientsPeer = Callable[[ConvolutionShape, Mapping[str, Array], subject.Mask], Callable[[], Any]]
"""Returns a call of PyTorch's, which is not installed where the tests run."""


class Family(NamedTuple):
    """Shapes of one algorithm, by a size that grows.

    Attributes:
        product: The gradient.
        algorithm: The algorithm, which is forced.
        power: Power of the size that the work grows with.
        text: The shape of a size.
    """

    product: Product
    algorithm: Algorithm
    power: int
    text: str


_DENSE = "b1 c{n} o{n} i{n}x{n} k3 p1"
FAMILIES = (
    Family(Product.IMAGE, Algorithm.PACKED, 4, _DENSE),
    Family(Product.IMAGE, Algorithm.FLAT, 3, "b1 c4 o{n} i{n}x{n} k3 p1"),
    Family(Product.IMAGE, Algorithm.WINOGRAD, 4, _DENSE),
    Family(Product.IMAGE, Algorithm.DEPTHWISE, 3, "b1 c{n} o{n} i{n}x{n} k3 p1 g{n}"),
    Family(Product.WEIGHT, Algorithm.OUTER, 4, _DENSE),
    Family(Product.WEIGHT, Algorithm.DOTS, 3, "b1 c4 o{n} i{n}x{n} k3 p1"),
    Family(Product.WEIGHT, Algorithm.WINOGRAD, 4, _DENSE),
    Family(Product.WEIGHT, Algorithm.DEPTHWISE, 3, "b1 c{n} o{n} i{n}x{n} k3 p1 g{n}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One shape of a family.

    Attributes:
        machine: The processor.
        name: Gradient and algorithm: "image: packed".
        family: The shapes, by a size n.
        work: Multiply-adds.
        ours_s: Seconds of the algorithm.
        theirs_s: Seconds of PyTorch.
        roof_s: Seconds of the multiply-adds at the peak of a core, or of a copy of as many bytes as
            the call reads and writes, whichever is longer.
        model_s: Seconds by the cost model, for a core of this peak.
    """

    machine: str
    name: str
    family: str
    work: float
    ours_s: float
    theirs_s: float
    roof_s: float
    model_s: float


def grow(machine: str, peak: float, rounds: int, *, theirs: GradientsPeer) -> Iterator[list[Point]]:
    """Yields the points of each family.

    Args:
        machine: The processor.
        peak: Its measured operations per second.
        rounds: Number of rounds.
        theirs: Returns PyTorch's call of a shape.
    """
    for family in FAMILIES:
        yield [
            _point(family, shape, machine, peak, _seconds(family, shape, rounds, theirs))
            for shape in shapes_of(family)
        ]


def shapes_of(family: Family) -> list[ConvolutionShape]:
    """Returns shapes of a family whose work grows by equal factors, up to its largest tensors."""
    name = named(family.product, family.algorithm)

    def shape(n: int) -> ConvolutionShape:
        return convolution(f"{name} {n}", family.text.format(n=n))

    # Work is this multiple of a power of the size.
    unit = _work(shape(64)) / 64**family.power
    works = np.geomspace(_LEAST, _MOST, _STEPS)
    sizes = dict.fromkeys(max(4, round((work / unit) ** (1 / family.power))) for work in works)
    return [one for one in map(shape, sizes) if _largest_bytes(one) <= _MOST_BYTES]


def write_points(points: Sequence[Point]) -> Path:
    """Writes all points, as make pictures reads them."""
    with PATH.open("w", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Point)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rounded(point) for point in points)
    return PATH


def _rounded(point: Point) -> dict[str, object]:
    row = asdict(point)
    return {name: f"{x:.4g}" if isinstance(x, float) else x for name, x in row.items()}


def _work(shape: ConvolutionShape) -> float:
    return shape.operations / 2


def _largest_bytes(shape: ConvolutionShape) -> int:
    return 4 * max(map(prod, (shape.input_shape, shape.output_shape, shape.weight_shape)))


def _seconds(
    family: Family, shape: ConvolutionShape, rounds: int, theirs: GradientsPeer
) -> Mapping[str, float]:
    """Returns the seconds of ours, of theirs, and of a copy of as many bytes."""
    to_image = family.product is Product.IMAGE
    mask = (to_image, not to_image, False)
    arrays = convolution_arrays(shape, DataType.FLOAT)
    options = replace(subject.FAST, algorithms=(named(family.product, family.algorithm),))
    # A copy reads and writes half as many bytes as the three tensors have: together, all of them.
    half = sum(array.nbytes for array in arrays.values()) // 2
    source, target = (np.zeros(half, np.uint8) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {
        "ours": subject.gradients_call(shape, arrays, DataType.FLOAT, mask, options),
        "theirs": theirs(shape, arrays, mask),
        "copy": lambda: np.copyto(target, source),
    }
    return {which: median(found) for which, found in by_turns(calls, rounds).items()}


def _point(
    family: Family,
    shape: ConvolutionShape,
    machine: str,
    peak: float,
    seconds: Mapping[str, float],
) -> Point:
    cost = product_cost(family.product, _convolution(shape), family.algorithm)
    work = _work(shape)
    return Point(
        machine=machine,
        name=named(family.product, family.algorithm),
        family=family.text.format(n="n"),
        work=work,
        ours_s=seconds["ours"],
        theirs_s=seconds["theirs"],
        roof_s=max(2 * work / peak, seconds["copy"]),
        model_s=cost / MULTIPLY_ADD * 2 / peak,
    )


def _convolution(shape: ConvolutionShape) -> Convolution:
    return Convolution(
        batch=shape.batch,
        groups=shape.groups,
        input_channels=shape.in_channels // shape.groups,
        output_channels=shape.out_channels // shape.groups,
        input_size=three(shape.size, 1),
        output_size=three(shape.output_size, 1),
        kernel_size=three(shape.kernel, 1),
        stride=three(shape.stride, 1),
        padding=three(shape.padding, 0),
        dilation=three(shape.dilation, 1),
    )
