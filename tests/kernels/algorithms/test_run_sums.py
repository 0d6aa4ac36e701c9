"""Runs that are added to lanes: every value once, none beside them."""

from collections.abc import Callable

import numpy as np
import pytest

from opserve_kernels.algorithms.codegen.run_sums import add_run, add_run_plainly
from opserve_kernels.algorithms.host import SUM_LANES


@pytest.mark.parametrize("add", [add_run, add_run_plainly], ids=["generated", "plain"])
@pytest.mark.parametrize("count", [0, 1, 17, 63, 64, 65, 200])
def test_a_run_is_added_one_vector_lane_at_a_time(add: Callable[..., None], count: int) -> None:
    values = np.full(count + 5, np.nan, dtype=np.float32)
    values[3 : 3 + count] = np.arange(count)
    lanes = np.full(SUM_LANES + 2, 7, dtype=np.float32)

    add(values, lanes, (3, count, 1))

    expected = np.full(SUM_LANES, 7, dtype=np.float32)
    np.add.at(expected, np.arange(count) % SUM_LANES, values[3 : 3 + count])
    np.testing.assert_array_equal(lanes, [7, *expected, 7])
