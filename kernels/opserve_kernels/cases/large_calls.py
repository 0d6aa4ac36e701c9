"""Outputs of large calls that are judged by a projection."""

from collections.abc import Mapping

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.projection import VECTORS, Projection, random_signs
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.cases.sums import multiply_adds, sums_of
from opserve_kernels.tensor import DataType

PROJECTED = 1_000_000_000
"""Multiply-adds of a case beyond which integers are projected: its expected values take seconds."""
_HOLDS_SUMS = (DataType.FLOAT, DataType.DOUBLE)  # dtypes with exact sums of integers


def projections_of(case: Case, seed: int) -> Mapping[str, Projection]:
    """Projections of the outputs that are judged by one: those of large calls with exact sums."""
    cases = cases_of(case.operator)
    if cases.projected is None or multiply_adds(case) <= PROJECTED:
        return {}
    groups, _ = cases.groups(case)
    found: dict[str, Projection] = {}
    for one in sums_of(case):
        axis, tensor = cases.projected.channel_axes.get(one.output), case.tensors[one.output]
        if axis is None or not one.is_exact or tensor.dtype not in _HOLDS_SUMS:
            continue
        channels = tensor.shape[axis]
        if channels > VECTORS * groups:
            signs = random_signs(case.id, seed, one.output, vectors=VECTORS, channels=channels)
            found[one.output] = Projection(signs=signs, axis=axis, groups=groups)
    return found
