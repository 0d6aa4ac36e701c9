"""The exact layer: an output equals the expected result, rounded once to its dtype."""

from dataclasses import dataclass

import numpy as np

from opserve_kernels.verdict.dtypes import Doubles, Dtype, Given, rounded
from opserve_kernels.verdict.verdict import Overflow

NAME, VERSION = "exact", "1"
SOURCE = "integer operands: every order of summation gives the same bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """The rule for operands whose sums are exact in every order: the tolerance is 0."""


def goal(expected: Doubles, dtype: Dtype, overflow: Overflow) -> Doubles:
    """Expected values, kept within the dtype's range if the contract requires it."""
    if overflow is Overflow.SATURATED:
        return np.clip(expected, -dtype.greatest, dtype.greatest)
    return expected


def as_stored(expected: Doubles, dtype: Dtype, overflow: Overflow) -> Given:
    """Expected values as an output must store them."""
    return rounded(goal(expected, dtype, overflow), dtype)


def used_fractions(given: Doubles, expected: Doubles, dtype: Dtype, overflow: Overflow) -> Doubles:
    """0 where the output is right, infinite elsewhere; -0 is +0, and any NaN is a NaN."""
    right = as_stored(expected, dtype, overflow).astype(np.float64)
    equal = (given == right) | (np.isnan(given) & np.isnan(right))
    return np.where(equal, 0.0, np.inf)
