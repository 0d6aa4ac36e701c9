"""Expected values of a call in float64, and the allowed distance of a kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.oracles.rounding import round_to
from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

ACCUMULATOR_UNIT = 2.0**-24
DOUBLE_UNIT = 2.0**-53
REFERENCE_UNIT = 2 * DOUBLE_UNIT  # the oracle's own sums are as far off as a float64 kernel's
LAMBDA = 4.0  # of the probabilistic bound lambda * sqrt(K) * u on a sum of K products
UNITS = {
    DataType.FLOAT: 2.0**-24,
    DataType.FLOAT16: 2.0**-11,
    DataType.BF16: 2.0**-8,
    DataType.DOUBLE: DOUBLE_UNIT,
}
HALF_SUBNORMAL_STEPS = {
    DataType.FLOAT: 2.0**-150,
    DataType.FLOAT16: 2.0**-25,
    DataType.BF16: 2.0**-134,
    DataType.DOUBLE: 0.0,
}
OVERFLOWS = {  # the smallest magnitude that rounds to infinity
    DataType.FLOAT: 2.0**128 - 2.0**103,
    DataType.FLOAT16: 65520.0,
    DataType.BF16: 2.0**128 - 2.0**119,
    DataType.DOUBLE: np.inf,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An output in float64 and the greatest difference allowed, element by element."""

    value: Doubles
    tolerance: Doubles


def expect(
    value: Doubles,
    magnitude: Doubles,
    *,
    terms: int,
    roundings: tuple[DataType, ...],
    unit: float = ACCUMULATOR_UNIT,
    transforms: Doubles | None = None,
) -> Expectation:
    """The bound of the conformance rule, from the length of the sums alone.

    Args:
        value: The sums.
        magnitude: The sums of the products' magnitudes.
        terms: Products in a sum, K.
        roundings: The dtypes that a sum is rounded to, in order.
        unit: Of the accumulation: float32's, or EXACT_UNIT.
        transforms: What Winograd's algorithm may add to the error: kernels.oracles.transforms.
    """
    with np.errstate(invalid="ignore"):
        tolerance = (LAMBDA * np.sqrt(terms) + 2) * unit * magnitude
        if unit == ACCUMULATOR_UNIT:  # float64 sums of float32 operands do not underflow
            tolerance = tolerance + terms * HALF_SUBNORMAL_STEPS[DataType.FLOAT]
        if transforms is not None:
            tolerance = tolerance + transforms
        for dtype in roundings:
            step = UNITS[dtype] * np.abs(value) + HALF_SUBNORMAL_STEPS[dtype]
            tolerance = tolerance * (1 + UNITS[dtype]) + step
        limit = min(OVERFLOWS[dtype] for dtype in roundings)
        rounded = np.where(np.abs(value) >= limit, np.copysign(np.inf, value), value)
    return Expectation(value=rounded, tolerance=tolerance)


def assert_meets_exactly(
    actual: NDArray[np.generic],
    value: Doubles,
    magnitude: Doubles,
    *,
    terms: int,
    dtype: DataType,
) -> None:
    """Fails unless a float64 kernel's result is its sum, rounded once to its dtype.

    Both the kernel's sum and the oracle's may be off by the bound that holds in any order,
    K * u * magnitude to first order. Rounding keeps order, so a result lies between the rounded
    ends of that interval: mostly one value, and never one that was rounded twice.

    Args:
        actual: The result.
        value: The oracle's sums.
        magnitude: The sums of the products' magnitudes.
        terms: Products in a sum, K.
        dtype: Of the result.
    """
    given = actual.astype(np.float64)
    assert given.shape == value.shape
    with np.errstate(invalid="ignore"):
        slack = np.where(np.isfinite(value), 2 * terms * DOUBLE_UNIT * magnitude, 0)
        least, most = round_to(value - slack, dtype), round_to(value + slack, dtype)
    np.testing.assert_array_equal(np.isnan(given), np.isnan(value), "NaN elsewhere")
    numbers = ~np.isnan(value)
    assert np.all(given[numbers] >= least[numbers])
    assert np.all(given[numbers] <= most[numbers])


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
