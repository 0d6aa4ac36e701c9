"""Large calls, checked by sums of channels with random signs instead of every element.

A gradient is linear in the operand that has its channels, so that with signs r (Freivalds)

    sum over c of r[c] grad_input[:, c]  is the gradient of grad_output and sum of r[c] weight[:, c]
    sum over k of r[k] grad_weight[k]    is the gradient of input and sum of r[k] grad_output[:, k]

and the right-hand side, which a reference computes, has a few channels only. On integers both are
exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.fill import Array, key_of, words

Doubles = NDArray[np.float64]
Signs = NDArray[np.float64]
VECTORS = 4  # several compensating differences go undetected with probability 2^-4
_CHANNELS = 16  # channels that are summed at once, from a copy in float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The sums of an output's channels that a projection takes.

    Attributes:
        signs: Of shape (vectors, channels).
        axis: Axis of the output's channels.
        groups: Groups within which channels are summed.
    """

    signs: Signs
    axis: int
    groups: int


def random_signs(case: str, seed: int, name: str, *, vectors: int, channels: int) -> Signs:
    """+1 and -1, of shape (vectors, channels), the same for a case, seed and output's name.

    Sign i of row v is the lowest bit of word v * channels + i of the generator of
    docs/reference/conformance-cases.md, for the tensor "<name>/signs": 0 is +1.
    """
    drawn = words(key_of(case, seed, f"{name}/signs"), 0, vectors * channels)
    return (1.0 - 2.0 * (drawn & np.uint64(1)).astype(np.float64)).reshape(vectors, channels)


def project(array: Array, signs: Signs, *, axis: int, groups: int = 1) -> Doubles:
    """Sums of the channels of each group with signs; vector v of group g is channel g*vectors+v.

    Args:
        array: Array with the channels of all groups along the axis.
        signs: Signs of shape (vectors, channels).
        axis: Axis of the channels.
        groups: Groups within which channels are summed.
    """
    vectors, channels = signs.shape
    moved = np.moveaxis(array, axis, 0)
    each = channels // groups
    found = np.zeros((groups, vectors, *moved.shape[1:]))
    for group in range(groups):
        for first in range(group * each, (group + 1) * each, _CHANNELS):
            part = slice(first, min(first + _CHANNELS, (group + 1) * each))
            found[group] += np.tensordot(signs[:, part], moved[part].astype(np.float64), axes=1)
    return np.moveaxis(found.reshape(groups * vectors, *moved.shape[1:]), 0, axis)


def project_weight(weight: Array, signs: Signs, *, groups: int = 1) -> Doubles:
    """Sums of a weight (K, C / groups, ...) over input channels with signs: (K, vectors, ...).

    Args:
        weight: Weight with the output channels of all groups in order.
        signs: Signs of shape (vectors, C).
        groups: Groups of the convolution.
    """
    vectors, channels = signs.shape
    rows, each = weight.shape[0] // groups, channels // groups
    found = np.empty((weight.shape[0], vectors, *weight.shape[2:]))
    for group in range(groups):
        part = slice(group * rows, (group + 1) * rows)
        own = signs[:, group * each : (group + 1) * each]
        product = np.tensordot(weight[part].astype(np.float64), own, axes=(1, 1))
        found[part] = np.moveaxis(product, -1, 1)
    return found
