"""What a call must write: values in float64, and how far a float32 kernel may be from them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

ACCUMULATOR_UNIT = 2.0**-24
LAMBDA = 4.0  # of the probabilistic bound lambda * sqrt(K) * u on a sum of K products
UNITS = {DataType.FLOAT: 2.0**-24, DataType.FLOAT16: 2.0**-11, DataType.BF16: 2.0**-8}
HALF_SUBNORMAL_STEPS = {DataType.FLOAT: 2.0**-150, DataType.FLOAT16: 2.0**-25, DataType.BF16: 0.0}
OVERFLOWS = {  # the smallest magnitude that rounds to infinity
    DataType.FLOAT: 2.0**128 - 2.0**103,
    DataType.FLOAT16: 65520.0,
    DataType.BF16: 2.0**128 - 2.0**119,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An output in float64 and the greatest difference allowed, element by element."""

    value: Doubles
    tolerance: Doubles


def expect(
    value: Doubles, magnitude: Doubles, *, terms: int, roundings: tuple[DataType, ...]
) -> Expectation:
    """The bound of the conformance rule, from the length of the sums alone.

    Args:
        value: The sums.
        magnitude: The sums of the products' magnitudes.
        terms: Products in a sum, K.
        roundings: The dtypes that a float32 sum is rounded to, in order.
    """
    with np.errstate(invalid="ignore"):
        tolerance = (LAMBDA * np.sqrt(terms) + 2) * ACCUMULATOR_UNIT * magnitude
        for dtype in roundings:
            unit = UNITS[dtype]
            tolerance = tolerance * (1 + unit) + unit * np.abs(value) + HALF_SUBNORMAL_STEPS[dtype]
        limit = min(OVERFLOWS[dtype] for dtype in roundings)
        rounded = np.where(np.abs(value) >= limit, np.copysign(np.inf, value), value)
    return Expectation(value=rounded, tolerance=tolerance)


def assert_meets(actual: NDArray[np.generic], expectation: Expectation) -> None:
    """Fails unless NaNs and infinities are where they must be and all else is within tolerance."""
    given = actual.astype(np.float64)
    expected = expectation.value
    assert given.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(given), np.isnan(expected), "NaN elsewhere")
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(given[infinite], expected[infinite], "infinity elsewhere")
    finite = np.isfinite(expected)
    used = np.abs(given[finite] - expected[finite]) - expectation.tolerance[finite]
    assert np.all(used <= 0), f"{np.max(used)} beyond the bound, {np.sum(used > 0)} elements"
