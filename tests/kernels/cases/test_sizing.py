"""Fills of integers: thinned as far as exact sums in float32 need, and no further."""

import pytest

from opserve_kernels.cases.case import Kind, TensorCase
from opserve_kernels.cases.sizing import filled, sums_exactly
from opserve_kernels.tensor import DataType

GRADIENT = TensorCase(shape=(2,), dtype=DataType.FLOAT)
OPERAND = TensorCase(shape=(2,), dtype=DataType.FLOAT)


def _thinning(tensors: dict[str, TensorCase], longest: int) -> tuple[int, int]:
    """That of the gradient, and the greatest magnitude of one product."""
    cases = filled(tensors, Kind.INTEGER, gradient="gradient", longest=longest)
    assert sums_exactly(cases, longest, gradient="gradient")
    magnitude = 1
    for case in cases.values():
        assert case.fill is not None
        magnitude *= case.fill.bound
    assert cases["gradient"].fill is not None
    return cases["gradient"].fill.thinning, magnitude


@pytest.mark.parametrize("others", [{}, {"operand": OPERAND}], ids=["alone", "with an operand"])
@pytest.mark.parametrize("doublings", [0, 1, 2, 5])
def test_a_sum_that_could_reach_2_to_24_is_thinned_by_halves(
    others: dict[str, TensorCase], doublings: int
) -> None:
    tensors = {"gradient": GRADIENT} | others
    _, magnitude = _thinning(tensors, 1)
    longest = (2**24 << doublings) // magnitude

    assert _thinning(tensors, longest)[0] == doublings
    assert _thinning(tensors, longest + 1)[0] == doublings + 1
