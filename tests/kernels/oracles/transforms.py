"""Error bound of Winograd's algorithm, which docs/explanation/error-bounds.md derives.

Operands are those of a convolution Y[k] = sum over c and taps of W[k, c] * X[c]: image (N, C, ...),
weight (K, C / groups, ...), output (N, K, ...). An element counts for PEAK times the geometric mean
magnitude of its operand at most, one that is not a number or infinite for 0: where there are
others, sums are taken without transforms.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from kernels.oracles.expectation import ACCUMULATOR_UNIT, LAMBDA, Doubles

Index = tuple[int, ...]

_GAIN = np.sqrt(27.0)  # along an axis: below it for every tile
_ROUNDINGS = 12.0  # of the transforms, squared errors in units
_TILES_OF_VALUE = 3.0  # of an image along an axis, at most
PEAK = 2.0**9
_TILE_RESULTS = {1: 1, 3: 4, 5: 2}  # by taps


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """A convolution without stride; padding is that before each dimension."""

    kernel: Index
    padding: Index
    dilation: Index
    groups: int

    def image_error(self, output: Doubles, weight: Doubles, size: Index) -> Doubles:
        """Of X = scatter(W^T Y), an image of this size."""
        reach = [
            [p - t * d for t in self._taps_near(axis)]
            for axis, (p, d) in enumerate(zip(self.padding, self.dilation, strict=True))
        ]
        norms = _norms(weight, 2)
        return self._product_error(_near(output, size, reach), norms, scatters=True)

    def output_error(self, image: Doubles, weight: Doubles, size: Index) -> Doubles:
        """Of Y = W columns(X), an output of this size."""
        reach = [
            [t * d - p for t in self._taps_near(axis)]
            for axis, (p, d) in enumerate(zip(self.padding, self.dilation, strict=True))
        ]
        norms = _norms(weight, 2)
        return self._product_error(_near(image, size, reach), norms, scatters=False)

    def weight_error(self, image: Doubles, output: Doubles) -> Doubles:
        """Of W = Y columns(X)^T."""
        sizes = zip(output.shape[2:], self.kernel, self.dilation, strict=True)
        tiles = prod(d * -(-n // (d * _TILE_RESULTS[k])) for n, k, d in sizes)
        x, y = (_norms(np.moveaxis(array, 1, 0), 1) for array in (image, output))
        groups = zip(np.split(y, self.groups), np.split(x, self.groups), strict=True)
        norms = np.concatenate([np.outer(of_y, of_x) for of_y, of_x in groups])
        overlap = np.sqrt(_TILES_OF_VALUE) ** self._axes
        error = self._error(len(image) * tiles) * overlap * norms
        channels = (*error.shape, *[1] * len(self.kernel))
        return np.broadcast_to(error.reshape(channels), (*error.shape, *self.kernel))

    @property
    def _axes(self) -> int:
        return sum(taps > 1 for taps in self.kernel)

    def _taps_near(self, axis: int) -> range:
        """Of a result, those that any result of its tile has."""
        taps = self.kernel[axis]
        return range(1 - _TILE_RESULTS[taps], taps + _TILE_RESULTS[taps] - 1)

    def _error(self, terms: int) -> float:
        """Of a sum of so many products at each point, relative to the norms'."""
        return float(LAMBDA * np.sqrt(terms + _ROUNDINGS) * ACCUMULATOR_UNIT * _GAIN**self._axes)

    def _product_error(self, near: Doubles, norms: Doubles, *, scatters: bool) -> Doubles:
        sources = np.split(near, self.groups, axis=1)
        formula = "ns...,sr->nr..." if scatters else "ns...,rs->nr..."
        weights = np.split(norms, self.groups)
        parts = [np.einsum(formula, s, w) for s, w in zip(sources, weights, strict=True)]
        return self._error(near.shape[1] // self.groups) * np.concatenate(parts, axis=1)


def _counted(array: Doubles) -> Doubles:
    """Magnitudes, up to PEAK times the geometric mean of those that are not 0."""
    magnitudes: Doubles = np.abs(np.nan_to_num(array, posinf=0, neginf=0))
    present = magnitudes[magnitudes > 0]
    peak = PEAK * np.exp(np.mean(np.log(present))) if present.size else 0.0
    return np.minimum(magnitudes, peak)


def _norms(array: Doubles, kept: int) -> Doubles:
    """Roots of the sums of squares over all but the first axes."""
    squares = np.square(_counted(array))
    norms: Doubles = np.sqrt(squares.sum(axis=tuple(range(kept, array.ndim))))
    return norms


def _near(source: Doubles, size: Index, reach: list[list[int]]) -> Doubles:
    """For each position, the norm of the source at the positions that lie so far from it."""
    squares = np.square(_counted(source))
    for axis, offsets in enumerate(reach, start=2):
        places = np.arange(size[axis - 2])[:, np.newaxis] + offsets
        within = (places >= 0) & (places < squares.shape[axis])
        taken = np.take(squares, places.clip(0, squares.shape[axis] - 1), axis=axis)
        shape = [1] * taken.ndim
        shape[axis : axis + 2] = within.shape
        squares = (taken * within.reshape(shape)).sum(axis=axis + 1)
    return np.sqrt(squares)
