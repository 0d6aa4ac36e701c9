"""The projection layer: sums of channels with random signs, instead of every element.

A single wrong element is always detected; several are, except with probability 2^-vectors
(opserve_kernels.cases.projection).
"""

import numpy as np

from opserve_kernels.cases.projection import Projection, project
from opserve_kernels.verdict.dtypes import DTYPES, Doubles, Given
from opserve_kernels.verdict.verdict import LayerResult, OutputVerdict, Status

NAME, VERSION = "projection", "1"
SOURCE = "Freivalds, random signs over a channel axis"


def judge_projection(
    name: str, given: Given, expected: Doubles, projection: Projection
) -> OutputVerdict:
    """The verdict on a large output of integer operands, by its projection alone.

    Args:
        name: Name of the output.
        given: The target's output.
        expected: The projection of the right values, by the same signs.
        projection: The sums that it takes.

    Raises:
        ValueError: Expected values of another shape than the projection's.
    """
    signs = projection.signs
    with np.errstate(invalid="ignore"):
        projected = project(given, signs, axis=projection.axis, groups=projection.groups)
    if projected.shape != expected.shape:
        raise ValueError(
            f"{name}: projected to {projected.shape}, expected value is {expected.shape}"
        )
    sums = int(np.count_nonzero(projected != expected))
    description = f"sums over channels with {signs.shape[0]} vectors of random signs"
    layer = LayerResult(
        name=NAME,
        version=VERSION,
        source=SOURCE,
        passed=sums == 0,
        gate=True,
        metrics={
            "vectors": float(signs.shape[0]),
            "sums": float(expected.size),
            "wrong sums": float(sums),
        },
    )
    wrong = f"{name}: {sums} of {expected.size} {description} are wrong"
    return OutputVerdict(
        name=name,
        dtype=DTYPES[given.dtype.name].name,
        shape=given.shape,
        status=Status.FAILED if sums else Status.PASSED,
        reason=wrong if sums else f"{name}: a projection, {description}, is right",
        layers=(layer,),
        elements=given.size,
        errors=sums,
        worst=float("inf") if sums else 0.0,
    )
