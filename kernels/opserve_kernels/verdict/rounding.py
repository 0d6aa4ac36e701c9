"""The rounding layer: a bound for each element, from the length and the magnitude of its sum.

With g the expected value, m the same sum of magnitudes, K the products in it, u a dtype's unit:

    slack = ((4 sqrt(K) + 2) (u_acc + 2^-53) + 2 u_in) m + K h_acc
    tolerance = slack (1 + u_out) + u_out |g| + h_out

h is half of a dtype's least subnormal number: the cost of underflow in a product and in a result.
2^-53 is the error of the expected value's own sum. Each further rounding repeats the second line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.verdict import exact
from opserve_kernels.verdict.dtypes import DTYPES, Doubles, Dtype
from opserve_kernels.verdict.verdict import Overflow

NAME, VERSION = "rounding", "1"
SOURCE = "Higham and Mary, SIAM J. Sci. Comput. 41, 2019; docs/explanation/error-bounds.md"
LAMBDA = 4.0  # of the probabilistic bound lambda * sqrt(K) * u on a sum of K products
_EXPECTED_UNIT = 2.0**-53  # expected results are float64 sums
_NO_BOUND = 2.0**1000  # finite, so that its product with a magnitude of 0 is 0
_Mask = NDArray[np.bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """The rule for real operands.

    Attributes:
        magnitude: Expected sums over magnitudes, shaped as the expected values.
        terms: Products in a sum, K.
        operand_unit: Unit of the rounding of operands before their product, if the expected value's
            operands were not rounded: 2^-12 for HF32. Else 0.
        accumulator: The dtype of partial sums.
        roundings: The dtypes that a complete sum is rounded to before its own, in order.
    """

    magnitude: Doubles
    terms: int
    operand_unit: float = 0.0
    accumulator: str = "float32"
    roundings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A rule's numbers for a dtype.

    Attributes:
        slope: Error of a sum before it is rounded, relative to the magnitude.
        floor: Its absolute part.
        accumulator: The dtype of partial sums.
        formats: Dtypes that a sum is rounded to, in order; the last one is the output's dtype.
        overflow: Rule for a result beyond the range.
    """

    slope: float
    floor: float
    accumulator: Dtype
    formats: tuple[Dtype, ...]
    overflow: Overflow

    @property
    def narrowest(self) -> Dtype:
        """The format whose range a sum exceeds first."""
        return min(self.formats, key=lambda dtype: dtype.greatest)


def limits(rule: Rounding, dtype: Dtype, overflow: Overflow) -> Limits:
    """The bound that holds except with a small probability."""
    accumulator = DTYPES[rule.accumulator]
    unit = accumulator.unit + _EXPECTED_UNIT
    return Limits(
        slope=(LAMBDA * sqrt(rule.terms) + 2) * unit + 2 * rule.operand_unit,
        floor=rule.terms * accumulator.half_step,
        accumulator=accumulator,
        formats=(*(DTYPES[name] for name in rule.roundings), dtype),
        overflow=overflow,
    )


def proven_limits(rule: Rounding, dtype: Dtype, overflow: Overflow) -> Limits:
    """The bound that holds in any order of summation: gamma_K, the smaller one for few terms."""
    likely = limits(rule, dtype, overflow)
    error = rule.terms * (likely.accumulator.unit + _EXPECTED_UNIT)
    gamma = error / (1 - error) if error < 1 else _NO_BOUND
    return replace(likely, slope=gamma + 2 * rule.operand_unit)


def used_fractions(given: Doubles, expected: Doubles, magnitude: Doubles, limit: Limits) -> Doubles:
    """|given - expected| divided by the tolerance; 0 or infinite if either is no number."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slack = limit.slope * magnitude + limit.floor
        tolerance = _rounded_tolerance(slack, np.abs(expected), limit.formats)
        difference = np.abs(given - expected)
        used = _fractions(difference, tolerance)
        plain = np.isfinite(given) & (np.abs(expected) + slack < limit.narrowest.overflow)
        if not np.all(plain):
            odd = ~plain
            used[odd] = _strange(given[odd], expected[odd], magnitude[odd], limit)
    return used


def _fractions(difference: Doubles, tolerance: Doubles) -> Doubles:
    """Fractions; 0 where nothing differs or the tolerance is infinite: any number is right."""
    counts = (difference != 0) & np.isfinite(tolerance)
    return np.divide(difference, tolerance, out=np.zeros_like(tolerance), where=counts)


def _rounded_tolerance(slack: Doubles, size: Doubles, formats: tuple[Dtype, ...]) -> Doubles:
    tolerance = slack
    for dtype in formats:
        tolerance = tolerance * (1 + dtype.unit) + (dtype.unit * size + dtype.half_step)
    return tolerance


def _strange(given: Doubles, expected: Doubles, magnitude: Doubles, limit: Limits) -> Doubles:
    """Used fractions where a value is infinite or no number, or may be."""
    slack = limit.slope * magnitude + limit.floor
    greatest, beyond = limit.narrowest.greatest, limit.narrowest.overflow
    finite_expected = np.isfinite(expected)
    goal = exact.goal(expected, limit.narrowest, limit.overflow)
    tolerance = _rounded_tolerance(slack, np.abs(goal), limit.formats)
    used = _fractions(np.where(given == goal, 0.0, np.abs(given - goal)), tolerance)
    may_be_finite = finite_expected & np.isfinite(given) & (np.abs(expected) - slack < beyond)
    up, down = (_reaches(sign, expected, magnitude, limit) for sign in (1, -1))
    sums_to_nothing = np.isnan(expected) | (finite_expected & up[0] & down[0])
    ends = _end(given, greatest, limit.overflow)
    right = np.isnan(given) & sums_to_nothing
    right |= (ends == 1) & up[1]
    right |= (ends == -1) & down[1]
    return np.where(right, 0.0, np.where(may_be_finite, used, np.inf))


def _reaches(
    sign: int, expected: Doubles, magnitude: Doubles, limit: Limits
) -> tuple[_Mask, _Mask]:
    """Whether terms of a sign may overflow the accumulator; whether a result may be beyond range.

    The terms of one sign add up to half of magnitude and expected value together.
    """
    finite = np.isfinite(expected)
    part = magnitude * (0.5 + limit.slope) + sign * 0.5 * expected
    accumulated = finite & (part >= limit.accumulator.overflow)
    slack = limit.slope * magnitude + limit.floor
    rounded = finite & (sign * expected + slack >= limit.narrowest.overflow)
    return accumulated, accumulated | rounded | (expected == sign * np.inf)


def _end(given: Doubles, greatest: float, overflow: Overflow) -> Doubles:
    """1 and -1 for the contract's values of results beyond the range, else 0."""
    last = greatest if overflow is Overflow.SATURATED else np.inf
    return np.where(np.abs(given) == last, np.sign(given), 0.0)
