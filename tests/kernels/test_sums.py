"""The loops around sums that have no operator of their own."""

import numpy as np
import pytest

from opserve_kernels.sums import all_finite, are_finite

_GREATEST = np.finfo(np.float32).max


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
@pytest.mark.parametrize("place", [0, 66, 98])
def test_one_value_that_is_not_finite_is_found(value: float, place: int) -> None:
    values = np.full(99, _GREATEST, dtype=np.float32)
    assert are_finite(values)

    values[place] = value

    assert not are_finite(values)


def test_values_between_the_rows_of_a_matrix_may_be_infinite() -> None:
    matrix = np.full((3, 5), np.inf, dtype=np.float32)
    matrix[:, :4] = -_GREATEST

    assert all_finite(matrix.reshape(-1), 5, 3, 4)
    assert not all_finite(matrix.reshape(-1), 5, 3, 5)


def test_nothing_is_finite() -> None:
    assert are_finite(np.empty(0, dtype=np.float32))
