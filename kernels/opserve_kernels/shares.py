"""A call cut into shares, which threads compute without waiting for each other.

Every product is cut into parts of one size, one for each share, so that shares take equally long
whatever a product takes. A part is a product of its own whose operands are parts of the tensors:
no algorithm knows of shares. Both sides of a product are packed; the side that is not cut is packed
once for every part:

    cut along           repeats the packing of
    groups              nothing
    grad_image          batch: the weight           input channels: the output
    grad_output         batch: the weight           output channels: the image
    grad_weight         input channels: the output  output channels: the image
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from math import gcd, lcm
from typing import Any, NamedTuple

from opserve_kernels.algorithms.host import LANES, whole_rows
from opserve_kernels.gradients import ChannelSums, Gradients, Operand

_LEAST_CYCLES = 600_000  # of a call that is cut, about 0.2 ms: a thread takes 0.05 ms to begin
_PACK_CYCLES = 0.4  # of a value into a panel
_SUM_CYCLES = 1.0  # of a value that is added to a channel's sum


class _Along(NamedTuple):
    """Where the convolution and its operands tell of what is cut: a size, and parts of operands."""

    size: str
    image: int | None
    output: int | None
    weight: int | None


class _Cut(Enum):
    """What a product may be cut along."""

    GROUPS = _Along("groups", image=0, output=0, weight=0)
    BATCH = _Along("batch", image=1, output=1, weight=None)
    INPUT_CHANNELS = _Along("input_channels", image=0, output=None, weight=2)
    OUTPUT_CHANNELS = _Along("output_channels", image=None, output=0, weight=1)


def shares_of(gradients: Gradients, threads: int) -> list[list[Gradients]]:
    """What each share computes, one after the other: at most as many shares as threads."""
    products = list(_products(gradients))
    if threads == 1 or _cycles_of_all(products) < _LEAST_CYCLES:
        return [products]
    parts = [part for product in products for part in _parts_of(product, threads)]
    shares: list[list[Gradients]] = [[] for _ in range(threads)]
    for part in sorted(parts, key=_cycles, reverse=True):
        min(shares, key=_cycles_of_all).append(part)
    return [share for share in shares if share]


def even(count: int, parts: int, step: int = 1) -> list[tuple[int, int]]:
    """First and last of each part of a row, of nearly one size and multiples of a step."""
    steps = count // step
    few = min(parts, steps)
    return [(i * steps // few * step, (i + 1) * steps // few * step) for i in range(few)]


def narrowed(operand: Operand, index: int, first: int, last: int, *, of: int) -> Operand:
    """The operand from `first` to `last` of so many along one of its parts."""
    (size, step), *inner = operand.parts[index]
    begin, end = first * size // of, last * size // of
    parts = list(operand.parts)
    parts[index] = ((end - begin, step), *inner)
    return replace(operand, offset=operand.offset + begin * step, parts=tuple(parts))


def _products(gradients: Gradients) -> Iterator[Gradients]:
    """What a call computes, one by one: sums, the image's gradient, the output's, the weight's."""
    nothing = Gradients(convolution=gradients.convolution)
    image, output, weight = gradients.image, gradients.output, gradients.weight
    if gradients.sums:
        yield replace(nothing, sums=gradients.sums)
    if gradients.grad_image:
        yield replace(nothing, output=output, weight=weight, grad_image=gradients.grad_image)
    if gradients.grad_output:
        yield replace(nothing, image=image, weight=weight, grad_output=gradients.grad_output)
    if gradients.grad_weight:
        yield replace(
            nothing,
            image=image,
            output=output,
            grad_weight=gradients.grad_weight,
            diagonal=gradients.diagonal,
        )


def _parts_of(product: Gradients, count: int) -> list[Gradients]:
    """A product in at most so many parts, cut so that the largest takes the least time."""
    if product.sums:
        channels = product.sums.result.count
        return [
            replace(product, sums=_sums_between(product.sums, first, last, channels))
            for first, last in even(channels, count)
        ]
    ways = [[product], *(_parts_along(cut, product, count) for cut in _cuts(product))]
    return min(ways, key=lambda parts: max(map(_cycles, parts)))


def _cuts(product: Gradients) -> Iterator[_Cut]:
    """What a product may be cut along: not what it sums over, nor channels that are not there."""
    convolution = product.convolution
    if product.grad_weight is None:
        yield _Cut.BATCH
    image, output = product.image or product.grad_image, product.output or product.grad_output
    assert image is not None
    assert output is not None
    if image.count == convolution.image_elements and output.count == convolution.output_elements:
        yield _Cut.GROUPS
        if convolution.groups == 1 and product.diagonal is None:
            if product.grad_output is None:
                yield _Cut.INPUT_CHANNELS
            if product.grad_image is None:
                yield _Cut.OUTPUT_CHANNELS


def _parts_along(cut: _Cut, product: Gradients, count: int) -> list[Gradients]:
    size = getattr(product.convolution, cut.value.size)
    steps = [
        size // gcd(size, operand.parts[index][0][0])
        for _, operand, index in _operands(cut, product)
    ]
    return [_between(cut, product, *bound, size) for bound in even(size, count, lcm(*steps))]


def _operands(cut: _Cut, product: Gradients) -> Iterator[tuple[str, Operand, int]]:
    """The operands that a cut goes through: name, operand, and which part of it."""
    along = cut.value
    for name, index in (
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


def _between(cut: _Cut, product: Gradients, first: int, last: int, size: int) -> Gradients:
    sizes: dict[str, Any] = {cut.value.size: last - first}
    changes: dict[str, Any] = {
        name: narrowed(operand, index, first, last, of=size)
        for name, operand, index in _operands(cut, product)
    }
    if product.diagonal:
        groups = product.diagonal.groups - first * product.diagonal.extend
        changes["diagonal"] = replace(product.diagonal, groups=groups)
    return replace(product, convolution=replace(product.convolution, **sizes), **changes)


def _sums_between(sums: ChannelSums, first: int, last: int, channels: int) -> ChannelSums:
    return ChannelSums(
        image=narrowed(sums.image, 0, first, last, of=channels),
        result=narrowed(sums.result, 0, first, last, of=channels),
    )


def _cycles_of_all(products: Sequence[Gradients]) -> float:
    return sum(map(_cycles, products))


def _cycles(product: Gradients) -> float:
    """About how long one product takes as a matrix (rows, depth) times one (depth, columns)."""
    if product.sums:
        return _SUM_CYCLES * product.sums.image.count
    convolution = product.convolution
    channels = (convolution.input_channels, convolution.output_channels)
    pixels, taps = convolution.output_pixels, convolution.taps
    if product.grad_image:
        rows, depth, columns = channels[0], channels[1] * taps, pixels
    elif product.grad_output:
        rows, depth, columns = channels[1], channels[0] * taps, pixels
    else:
        rows, depth, columns = channels[1], pixels, channels[0] * taps
    multiplied, packed = whole_rows(rows) * columns / LANES, _PACK_CYCLES * (rows + columns)
    return convolution.groups * depth * (multiplied + packed)
