"""A call cut into shares, which threads compute without waiting for each other.

Sums and gradients are divided among the shares, whole or cut into parts. A part is a smaller
product whose operands are parts of the tensors, so no algorithm depends on shares. Both operands of
a product are copied into panels; the operand that is not cut is copied again for every part:

    cut along           copies again
    groups              nothing
    grad_image          batch: the weight           input channels: the output
    grad_output         batch: the weight           output channels: the image
    grad_weight         input channels: the output  output channels: the image
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import product as cartesian
from math import gcd, lcm
from typing import Any, NamedTuple

from opserve_kernels.gradients import ChannelSums, Gradients, Operand

_LEAST_COST = 200_000  # cost of a call that is cut, in ns: starting a thread takes 50,000 ns
_UNEQUAL = 1.04  # factor on the cost of unequal shares: parts of one product take equally long

Cost = Callable[[Gradients], float]
Bound = tuple[int, int]
"""First, and one past the last."""


class _Along(NamedTuple):
    """Attributes of the convolution and its operands along a cut: a size, and parts of operands."""

    size: str
    image: int | None
    output: int | None
    weight: int | None


class _Cut(Enum):
    """The dimensions along which a product may be cut."""

    GROUPS = _Along("groups", image=0, output=0, weight=0)
    BATCH = _Along("batch", image=1, output=1, weight=None)
    INPUT_CHANNELS = _Along("input_channels", image=0, output=None, weight=2)
    OUTPUT_CHANNELS = _Along("output_channels", image=None, output=0, weight=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Division:
    """Sums, or a gradient, with a division to cut them.

    Attributes:
        product: The product that is cut.
        cut: Dimension of the cut; None for sums, which are cut by their channels, and for one part.
        bounds: Bounds of each part.
        cost: Cost of the longest part.
    """

    product: Gradients
    cut: _Cut | None
    bounds: Sequence[Bound]
    cost: float

    def part(self, bound: Bound) -> Gradients:
        """A part as a call of its own."""
        if self.product.sums:
            return _sums_between(self.product, *bound)
        return self.product if self.cut is None else _between(self.cut, self.product, *bound)


def shares_of(gradients: Gradients, threads: int, cost: Cost) -> list[list[Gradients]]:
    """Products of each share, in order: at most as many shares as threads.

    Args:
        gradients: The call.
        threads: Number of threads.
        cost: Rough cost of sums or of one gradient, in nanoseconds.
    """
    products = list(products_of(gradients))
    # Below this cost, starting a thread (50,000 ns) takes too much of the gain.
    if threads == 1 or sum(map(cost, products)) < _LEAST_COST:
        return [products]
    # Each product is tried whole and in every number of parts that divides the threads; of all
    # combinations, the one with the shortest longest share wins. Two or three products and few
    # divisors keep their number small.
    divisions = [
        [_best_division(product, count, cost) for count in _counts(product, threads)]
        for product in products
    ]
    _, shares = min(
        (_divided(division, threads) for division in cartesian(*divisions)),
        key=lambda found: found[0],
    )
    return [[division.part(bound) for division, bound in share] for share in shares if share]


def products_of(gradients: Gradients) -> Iterator[Gradients]:
    """The products of a call, one by one: gradients of image, output and weight, then sums."""
    part = partial(Gradients, convolution=gradients.convolution)
    biased = partial(part, bias=gradients.bias, unbiased_format=gradients.unbiased_format)
    image, output, weight = gradients.image, gradients.output, gradients.weight
    if gradients.grad_image:
        yield biased(output=output, weight=weight, grad_image=gradients.grad_image)
    if gradients.grad_output:
        yield biased(image=image, weight=weight, grad_output=gradients.grad_output)
    if gradients.grad_weight:
        result, diagonal = gradients.grad_weight, gradients.diagonal
        yield part(image=image, output=output, grad_weight=result, diagonal=diagonal)
    if gradients.sums:
        yield part(sums=gradients.sums)


def even(count: int, parts: int, step: int = 1) -> list[Bound]:
    """Bounds of parts of a row, of nearly equal sizes that are multiples of a step.

    No part is larger than the last one.
    """
    steps = count // step
    few = min(parts, steps)
    return [(i * steps // few * step, (i + 1) * steps // few * step) for i in range(few)]


def narrowed(operand: Operand, index: int, first: int, last: int, *, of: int) -> Operand:
    """The operand from `first` to `last` of so many along one of its parts."""
    # Only the outermost axis of the part is cut: its inner axes stay whole, so a view describes it.
    (size, step), *inner = operand.parts[index]
    begin, end = first * size // of, last * size // of
    parts = list(operand.parts)
    parts[index] = ((end - begin, step), *inner)
    return replace(operand, offset=operand.offset + begin * step, parts=tuple(parts))


def _counts(product: Gradients, threads: int) -> list[int]:
    """Numbers of parts to try; small parts of sums fill best what gradients leave."""
    if product.sums:
        return [threads]
    return [count for count in range(1, threads + 1) if threads % count == 0]


def _divided(
    divisions: Sequence[_Division], threads: int
) -> tuple[float, list[list[tuple[_Division, Bound]]]]:
    """Costs of the longest share, and the parts of each: the longest part to the least share."""
    # Longest parts first, each to the share with the lowest cost: the usual heuristic for equal
    # loads.
    costs = [0.0] * threads
    shares: list[list[tuple[_Division, Bound]]] = [[] for _ in range(threads)]
    for division in sorted(divisions, key=lambda division: division.cost, reverse=True):
        for bound in division.bounds:
            least = costs.index(min(costs))
            costs[least] += division.cost
            shares[least].append((division, bound))
    # Estimates of different products may be off by different amounts, parts of one product only by
    # the same: if costs are close, the division into equal parts wins.
    sure = all(len(division.bounds) == threads for division in divisions)
    return max(costs) * (1 if sure else _UNEQUAL), shares


def _best_division(product: Gradients, count: int, cost: Cost) -> _Division:
    """A product in at most so many parts, cut so that the longest part takes least."""
    if product.sums:
        bounds = even(product.sums.result.count, count)
        part = _sums_between(product, *bounds[-1])
        return _Division(product=product, cut=None, bounds=bounds, cost=cost(part))
    best = _Division(product=product, cut=None, bounds=[(0, 1)], cost=cost(product))
    # The last part is the largest (see `even`), so its cost is that of the longest one.
    for cut in _cuts(product) if count > 1 else ():
        bounds = _bounds(cut, product, count)
        found = cost(_between(cut, product, *bounds[-1]))
        if found < best.cost:
            best = _Division(product=product, cut=cut, bounds=bounds, cost=found)
    return best


def _cuts(product: Gradients) -> Iterator[_Cut]:
    """Dimensions for a cut: none that the product sums over, and no channels that tensors lack."""
    convolution = product.convolution
    if product.grad_weight is None:
        yield _Cut.BATCH
    image, output = product.image or product.grad_image, product.output or product.grad_output
    assert image is not None
    assert output is not None
    # Channels that fill up a superblock are missing in the tensors: such products are cut along the
    # batch only.
    if image.count == convolution.image_elements and output.count == convolution.output_elements:
        yield _Cut.GROUPS
        # With groups, channels are cut by groups already; with a diagonal, superblocks stay whole.
        if convolution.groups == 1 and product.diagonal is None:
            if product.grad_output is None:
                yield _Cut.INPUT_CHANNELS
            if product.grad_image is None:
                yield _Cut.OUTPUT_CHANNELS


def _bounds(cut: _Cut, product: Gradients, count: int) -> list[Bound]:
    size: int = getattr(product.convolution, cut.value.size)
    steps = [
        size // gcd(size, operand.parts[index][0][0])
        for _, operand, index in _operands(cut, product)
    ]
    return even(size, count, lcm(*steps))


def _operands(cut: _Cut, product: Gradients) -> Iterator[tuple[str, Operand, int]]:
    """The operands of a cut: name, operand, and the index of its part."""
    along = cut.value
    # A bias has channels alone, those of the result.
    channels = along.output if product.grad_output else along.image
    for name, index in (
        ("bias", channels if channels == 0 else None),
        ("image", along.image),
        ("grad_image", along.image),
        ("output", along.output),
        ("grad_output", along.output),
        ("weight", along.weight),
        ("grad_weight", along.weight),
    ):
        operand: Operand | None = getattr(product, name)
        if operand is not None and index is not None:
            yield name, operand, index


def _between(cut: _Cut, product: Gradients, first: int, last: int) -> Gradients:
    size: int = getattr(product.convolution, cut.value.size)
    sizes: dict[str, Any] = {cut.value.size: last - first}
    changes: dict[str, Any] = {
        name: narrowed(operand, index, first, last, of=size)
        for name, operand, index in _operands(cut, product)
    }
    # The diagonal counts groups from the first superblock of the part.
    if product.diagonal:
        groups = product.diagonal.groups - first * product.diagonal.extend
        changes["diagonal"] = replace(product.diagonal, groups=groups)
    return replace(product, convolution=replace(product.convolution, **sizes), **changes)


def _sums_between(product: Gradients, first: int, last: int) -> Gradients:
    sums = product.sums
    assert sums is not None
    channels = sums.result.count
    part = ChannelSums(
        image=narrowed(sums.image, 0, first, last, of=channels),
        result=narrowed(sums.result, 0, first, last, of=channels),
    )
    return replace(product, sums=part)
