"""The rounding layer's bound against exact arithmetic, and at the ends of a range."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.verdict.judge import judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.verdict import OutputVerdict, Overflow

UNITS = {
    "float32": Fraction(1, 2**24),
    "float16": Fraction(1, 2**11),
    "bfloat16": Fraction(1, 2**8),
}
HALF_STEPS = {"float32": -150, "float16": -25, "bfloat16": -134}
TERMS = 576
INFINITE, NAN = float("inf"), float("nan")


def tolerance(
    expected: float, magnitude: float, dtype: str, *, terms: int = TERMS, operand: Fraction
) -> Fraction:
    """The formula of docs/reference/conformance-verdicts.md, in rationals; terms are a square."""
    root = isqrt(terms)
    assert root * root == terms
    slope = (4 * root + 2) * (UNITS["float32"] + Fraction(1, 2**53)) + 2 * operand
    slack = slope * Fraction(magnitude) + terms * Fraction(2) ** -150
    unit = UNITS[dtype]
    half_step = Fraction(2) ** HALF_STEPS[dtype]
    return slack * (1 + unit) + unit * abs(Fraction(expected)) + half_step


def judged(
    given: NDArray[np.generic],
    expected: list[float],
    magnitude: list[float],
    *,
    terms: int = TERMS,
    overflow: Overflow = Overflow.INFINITE,
) -> OutputVerdict:
    rule = Rounding(magnitude=np.array(magnitude), terms=terms)
    pair = Pair(given=given, expected=np.array(expected), overflow=overflow)
    return judge("out", pair, rule, axes=("c",))


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("operand", [Fraction(0), Fraction(1, 2**12)])
def test_used_fraction_is_the_formula_in_exact_arithmetic(dtype: str, operand: Fraction) -> None:
    random = np.random.default_rng(2)
    expected = random.standard_normal(50) * np.ldexp(1.0, random.integers(-30, 8, 50))
    magnitude = np.abs(expected) * random.uniform(1, 50, 50)
    given = (expected * random.uniform(0.9, 1.1, 50)).astype(dtype)
    for got, right, size in zip(given, expected, magnitude, strict=True):
        allowed = tolerance(float(right), float(size), dtype, operand=operand)
        used = abs(Fraction(float(got)) - Fraction(float(right))) / allowed
        rule = Rounding(magnitude=size.reshape(1), terms=TERMS, operand_unit=float(operand))
        pair = Pair(given=got.reshape(1), expected=right.reshape(1))
        found = judge("out", pair, rule, axes=("c",)).worst
        assert found == pytest.approx(float(used), rel=1e-12)


def test_passing_through_a_second_dtype_is_allowed_where_it_is_declared() -> None:
    expected = np.array([1 + 2.0**-12])
    given = expected.astype(np.float16).astype(np.float32)
    pair = Pair(given=given, expected=expected)
    plain = Rounding(magnitude=expected, terms=1)
    declared = Rounding(magnitude=expected, terms=1, roundings=("float16",))
    assert judge("out", pair, plain, axes=("c",)).errors == 1
    assert judge("out", pair, declared, axes=("c",)).errors == 0


def test_a_sum_leaves_the_range_of_the_narrowest_dtype_that_it_passes_through() -> None:
    expected = np.array([70000.0, 70000.0, 1e30])
    given = np.array([np.inf, 70000.0, -np.inf], np.float32)
    for overflow, wrong in ((Overflow.INFINITE, [1, 2]), (Overflow.SATURATED, [0, 1, 2])):
        pair = Pair(given=given, expected=expected, overflow=overflow)
        rule = Rounding(magnitude=expected, terms=1, roundings=("float16",))
        verdict = judge("out", pair, rule, axes=("c",))
        assert [element.index[0] for element in verdict.first] == wrong


@pytest.mark.parametrize("operand", [0.0, 2.0**-12])
def test_a_disputed_error_is_distinguished_from_one_that_no_order_explains(operand: float) -> None:
    terms = 10_000
    likely = (4 * 100 + 2) * 2.0**-24 + 2 * operand
    proven = terms * 2.0**-24 / (1 - terms * 2.0**-24) + 2 * operand
    given = np.array([0.99 * likely, 1.01 * likely, 0.99 * proven, 1.01 * proven], np.float32)
    rule = Rounding(magnitude=np.ones(4), terms=terms, operand_unit=operand)
    (layer,) = judge("out", Pair(given=given, expected=np.zeros(4)), rule, axes=("c",)).layers
    assert layer.metrics["errors"] == 3
    assert layer.metrics["errors beyond the proven bound"] == 1


FLOAT_MAX, HALF_MAX = 2.0**128 - 2.0**104, 65504.0
INFINITE_RULES = [  # expected value, magnitude, given, errors
    (65519.8, 65519.8, HALF_MAX, 0),
    (65519.8, 65519.8, INFINITE, 0),  # a float32 sum may be that far off
    (65521.0, 65521.0, INFINITE, 0),
    (65000.0, 65000.0, INFINITE, 1),
    (70000.0, 70000.0, INFINITE, 0),
    (70000.0, 70000.0, HALF_MAX, 1),
    (-70000.0, 70000.0, INFINITE, 1),
    (-70000.0, 70000.0, -INFINITE, 0),
    (70000.0, 70000.0, NAN, 1),
    (INFINITE, INFINITE, INFINITE, 0),
    (INFINITE, INFINITE, HALF_MAX, 1),
    (INFINITE, INFINITE, -INFINITE, 1),
    (INFINITE, INFINITE, NAN, 1),
    (NAN, NAN, NAN, 0),
    (NAN, NAN, 0.0, 1),
    (NAN, NAN, INFINITE, 1),
    (1.0, 1.0, NAN, 1),
    (0.0, 0.0, 0.0, 0),
    (0.0, 0.0, -0.0, 0),
]


@pytest.mark.parametrize(("expected", "magnitude", "given", "errors"), INFINITE_RULES)
def test_results_beyond_the_range_are_infinite(
    expected: float, magnitude: float, given: float, errors: int
) -> None:
    verdict = judged(np.array([given], np.float16), [expected], [magnitude])
    assert verdict.errors == errors


SATURATED_RULES = [
    (70000.0, 70000.0, HALF_MAX, 0),
    (70000.0, 70000.0, INFINITE, 1),
    (70000.0, 70000.0, 65472.0, 1),
    (-70000.0, 70000.0, HALF_MAX, 1),
    (65519.0, 65519.0, INFINITE, 1),
    (65519.0, 65519.0, HALF_MAX, 0),
    (65520.2, 65520.2, 65472.0, 0),  # as near to the greatest number as to any other
    (INFINITE, INFINITE, HALF_MAX, 0),
    (-INFINITE, INFINITE, INFINITE, 1),
    (NAN, NAN, HALF_MAX, 1),
    (NAN, NAN, NAN, 0),
]


@pytest.mark.parametrize(("expected", "magnitude", "given", "errors"), SATURATED_RULES)
def test_results_beyond_the_range_are_saturated_where_the_contract_requires_it(
    expected: float, magnitude: float, given: float, errors: int
) -> None:
    given_half = np.array([given], np.float16)
    verdict = judged(given_half, [expected], [magnitude], overflow=Overflow.SATURATED)
    assert verdict.errors == errors


ACCUMULATED_RULES = [  # of float32 sums that may leave float32 on the way
    (0.0, 2.0**129, INFINITE, 0),
    (0.0, 2.0**129, NAN, 0),
    (0.0, 2.0**129, 0.0, 0),
    (0.0, 2.0**127, INFINITE, 1),
    (2.0**128, 2.0**128, NAN, 1),
    (2.0**127, 2.0**128, -INFINITE, 1),
    (2.0**129, 2.0**129, FLOAT_MAX, 1),
    (2.0**129, 2.0**129, INFINITE, 0),
]


@pytest.mark.parametrize(("expected", "magnitude", "given", "errors"), ACCUMULATED_RULES)
def test_sums_that_leave_float32_on_the_way_may_be_infinite(
    expected: float, magnitude: float, given: float, errors: int
) -> None:
    verdict = judged(np.array([given], np.float32), [expected], [magnitude])
    assert verdict.errors == errors


def test_doubles_that_are_summed_in_doubles_are_held_to_both_sums() -> None:
    expected = np.array([1.0, 1e308, 0.0])
    rule = Rounding(magnitude=np.array([1.0, 1e308, 0.0]), terms=4, accumulator="float64")
    near, far = expected * (1 + 20 * 2.0**-53), expected * (1 + 24 * 2.0**-53)
    assert judge("out", Pair(given=near, expected=expected), rule, axes=("c",)).errors == 0
    assert judge("out", Pair(given=far, expected=expected), rule, axes=("c",)).errors == 2
    infinite = np.array([np.inf, np.inf, 0.0])
    assert judge("out", Pair(given=infinite, expected=expected), rule, axes=("c",)).errors == 2
