"""Random shapes by a seed, which guard against tuning for a list."""

from dataclasses import replace
from math import exp, log, prod

import numpy as np

from benchmarks.kernels.shapes import ConvolutionShape, Sizes

COUNT = 48
SEED = 2026

_KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7)
_STRIDES = (1, 1, 1, 2, 2, 3)
_DILATIONS = (1, 1, 1, 1, 2, 3)
_BATCHES = (1, 2, 4, 8, 16)
_SIZES = {1: (16, 4096), 2: (4, 128), 3: (4, 24)}
_RANKS, _RANK_ODDS = (1, 2, 3), (0.2, 0.6, 0.2)
_MOST_CHANNELS = 320
_LEAST_OPERATIONS, _MOST_OPERATIONS = 10**6, 3 * 10**8  # a gradient takes 10 ms at most or so
_MOST_ELEMENTS = 1 << 21


def random_shapes(seed: int = SEED, *, count: int = COUNT) -> tuple[ConvolutionShape, ...]:
    """Returns random shapes of all kinds with bounded cost, the same for the same seed."""
    random = np.random.default_rng(seed)
    shapes: list[ConvolutionShape] = []
    while len(shapes) < count:
        shape = _draw(random)
        if _is_fit(shape):
            shapes.append(replace(shape, name=f"random_{len(shapes):02}"))
    return tuple(shapes)


def _draw(random: np.random.Generator) -> ConvolutionShape:
    rank = int(random.choice(_RANKS, p=_RANK_ODDS))
    transposed = bool(random.random() < 0.25)
    groups, in_channels, out_channels = _draw_channels(random)
    kernel = _by_axis(random, _KERNELS, rank)
    stride = _by_axis(random, _STRIDES, rank)
    dilation = _by_axis(random, _DILATIONS, rank)
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    keeps_size = random.random() < 0.6
    padding = [r // 2 if keeps_size else int(random.integers(r + 1)) for r in reach]
    extra = [int(random.integers(s)) if transposed else 0 for s in stride]
    least, most = _SIZES[rank]
    sizes = tuple(_log_uniform(random, least, most) for _ in range(rank))
    return ConvolutionShape(
        name="",
        batch=int(random.choice(_BATCHES)),
        in_channels=in_channels,
        out_channels=out_channels,
        size=(sizes[0],) * rank if random.random() < 0.5 else sizes,
        kernel=kernel,
        stride=stride,
        padding=tuple(padding),
        dilation=dilation,
        output_padding=tuple(extra),
        groups=groups,
        transposed=transposed,
    )


def _draw_channels(random: np.random.Generator) -> tuple[int, int, int]:
    """Draws groups, input and output channels: dense, grouped or depthwise."""
    kind = random.random()
    first, second = _log_uniform(random, 1, _MOST_CHANNELS), _log_uniform(random, 1, _MOST_CHANNELS)
    if random.random() < 0.5:
        first, second = -(-first // 8) * 8, -(-second // 8) * 8
    if kind < 0.6:
        return 1, first, second
    if kind < 0.8:
        groups = int(random.choice((2, 4, 8, 32)))
        return groups, -(-first // groups) * groups, -(-second // groups) * groups
    return first, first, first * int(random.choice((1, 1, 2)))


def _by_axis(random: np.random.Generator, values: Sizes, rank: int) -> Sizes:
    """Draws a number for each axis, mostly the same for all."""
    drawn = tuple(int(value) for value in random.choice(values, rank))
    return (drawn[0],) * rank if random.random() < 0.7 else drawn


def _log_uniform(random: np.random.Generator, least: int, most: int) -> int:
    return round(exp(random.uniform(log(least), log(most))))


def _is_fit(shape: ConvolutionShape) -> bool:
    if min(shape.output_size) < 1:
        return False
    elements = max(map(prod, (shape.input_shape, shape.output_shape, shape.weight_shape)))
    bounded = _LEAST_OPERATIONS <= shape.operations <= _MOST_OPERATIONS
    return bounded and elements <= _MOST_ELEMENTS
