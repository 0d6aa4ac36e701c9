"""The projection layer: sums of channels with random signs, instead of every element.

A gradient is linear in the operand that has its channels, so that with signs r (Freivalds)

    sum over c of r[c] grad_input[:, c]  is the gradient of grad_output and sum of r[c] weight[:, c]
    sum over k of r[k] grad_weight[k]    is the gradient of input and sum of r[k] grad_output[:, k]

and the right-hand side, which a reference computes, has a few channels only. On integers both are
exact. A single wrong element is always seen, any others but for a chance of 2^-vectors.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.fill import key_of, words
from opserve_kernels.verdict.dtypes import DTYPES, Doubles, Given
from opserve_kernels.verdict.verdict import LayerResult, OutputVerdict, Status

NAME, VERSION = "projection", "1"
SOURCE = "Freivalds, random signs over a channel axis"
VECTORS = 4  # a difference that no single element makes slips through once in 2^4
_CHANNELS = 16  # that are summed at once: a copy in float64 is made of them
Signs = NDArray[np.float64]


def random_signs(case: str, seed: int, name: str, *, vectors: int, channels: int) -> Signs:
    """+1 and -1, of shape (vectors, channels), the same for a case, seed and output's name.

    Sign i of row v is the lowest bit of word v * channels + i of the generator of
    docs/conformance-cases.md, for the tensor "<name>/signs": 0 is +1.
    """
    drawn = words(key_of(case, seed, f"{name}/signs"), 0, vectors * channels)
    return (1.0 - 2.0 * (drawn & np.uint64(1)).astype(np.float64)).reshape(vectors, channels)


def project(array: Given, signs: Signs, *, axis: int, groups: int = 1) -> Doubles:
    """Sums of the channels of each group with signs; vector v of group g is channel g*vectors+v.

    Args:
        array: With the channels of all groups along the axis.
        signs: Of shape (vectors, channels).
        axis: Of the channels.
        groups: That channels are summed within.
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


def project_weight(weight: Given, signs: Signs, *, groups: int = 1) -> Doubles:
    """Of a weight (K, C / groups, ...), sums over input channels with signs: (K, vectors, ...).

    Args:
        weight: With the output channels of all groups in order.
        signs: Of shape (vectors, C).
        groups: Of the convolution.
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


def judge_projection(
    name: str, given: Given, golden: Doubles, signs: Signs, *, axis: int, groups: int = 1
) -> OutputVerdict:
    """The verdict on a large output of integer operands, by its projection alone.

    Args:
        name: Of the output.
        given: What the target computed.
        golden: The projection of what is right, by the same signs.
        signs: Of shape (vectors, channels).
        axis: Of given's channels.
        groups: That channels were summed within.

    Raises:
        ValueError: Golden values of another shape than the projection's.
    """
    with np.errstate(invalid="ignore"):
        projected = project(given, signs, axis=axis, groups=groups)
    if projected.shape != golden.shape:
        raise ValueError(f"{name}: projected to {projected.shape}, golden is {golden.shape}")
    sums = int(np.count_nonzero(projected != golden))
    told = f"sums over channels with {signs.shape[0]} vectors of random signs"
    layer = LayerResult(
        name=NAME,
        version=VERSION,
        source=SOURCE,
        passed=sums == 0,
        gate=True,
        metrics={
            "vectors": float(signs.shape[0]),
            "sums": float(golden.size),
            "wrong sums": float(sums),
        },
    )
    wrong = f"{name}: {sums} of {golden.size} {told} are wrong"
    return OutputVerdict(
        name=name,
        dtype=DTYPES[given.dtype.name].name,
        shape=given.shape,
        status=Status.FAILED if sums else Status.PASSED,
        reason=wrong if sums else f"{name}: a projection, {told}, is right",
        layers=(layer,),
        elements=given.size,
        errors=sums,
        worst=float("inf") if sums else 0.0,
    )
