"""Right sums pass in any order; each kind of wrong one is caught by the layer that is named for it.

docs/explanation/verdicts.md has the measured shares of accepted wrong results; the limits here are
their upper bounds.
"""

from collections.abc import Callable

import numpy as np
import pytest

from kernels.oracles.rounding import round_to_hf32
from kernels.verdict.computing import (
    DTYPES,
    ORDERS,
    Given,
    Sums,
    as_dtype,
    blocked,
    hf32,
    in_halves,
    in_sequence,
    integer_sums,
    real_sums,
    rounded_once,
    shuffled,
)
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.verdict import OutputVerdict, Status

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
LENGTHS = (1, 2, 9, 72, 577, 3000)


def by_rounding(given: Given, sums: Sums, *, operand_unit: float = 0.0) -> OutputVerdict:
    rule = Rounding(magnitude=sums.magnitude, terms=sums.terms, operand_unit=operand_unit)
    return judge("out", Pair(given=given, expected=sums.expected), rule, axes=("e",))


def exactly(given: Given, sums: Sums) -> OutputVerdict:
    return judge("out", Pair(given=given, expected=sums.expected), Exact(), axes=("e",))


@every_dtype
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0.0, 3.0, -50.0])
def test_right_sums_of_real_numbers_pass_in_any_order(
    dtype: str, order: str, offset: float
) -> None:
    random = np.random.default_rng(3)
    for terms in LENGTHS:
        sums = real_sums(random, elements=300, terms=terms, dtype=dtype, offset=offset)
        for _ in range(2):
            given = rounded_once(ORDERS[order](shuffled(sums, random)), dtype)
            verdict = by_rounding(given, sums)
            assert verdict.status is Status.PASSED, (terms, verdict.reason)


@every_dtype
@pytest.mark.parametrize("order", ORDERS)
def test_right_sums_of_integers_are_exact_in_any_order(dtype: str, order: str) -> None:
    random = np.random.default_rng(4)
    for terms in LENGTHS:
        sums = integer_sums(random, elements=300, terms=terms, dtype=dtype)
        for _ in range(2):
            given = rounded_once(ORDERS[order](shuffled(sums, random)), dtype)
            assert exactly(given, sums).status is Status.PASSED


def test_a_sum_that_starts_at_minus_zero_is_right() -> None:
    sums = Sums(left=np.zeros((1, 2)), right=-np.ones((1, 2)), dtype="float32")
    given = np.array([-0.0], np.float32)
    assert exactly(given, sums).status is Status.PASSED
    assert by_rounding(given, sums).status is Status.PASSED


def accepted(mutant: Callable[[Sums], Given], sums: list[Sums]) -> float:
    """The share of wrong results that the rounding layer accepts."""
    return float(np.mean([by_rounding(mutant(s), s).status is Status.PASSED for s in sums]))


def many(dtype: str, *, seed: int, terms: tuple[int, ...] = (9, 72, 576, 2304)) -> list[Sums]:
    random = np.random.default_rng(seed)
    return [
        real_sums(random, elements=256, terms=length, dtype=dtype)
        for length in terms
        for _ in range(10)
    ]


def of_brains(sums: Sums) -> Given:
    """Operands rounded to bfloat16."""
    return rounded_once(blocked(sums.of("bfloat16")), sums.dtype)


def through_half(sums: Sums) -> Given:
    """Sums that are rounded to float16 before they are rounded to bfloat16."""
    return blocked(sums).astype(np.float16).astype(sums.dtype)


def without_the_last(sums: Sums) -> Given:
    """Sums that lack their last product."""
    short = Sums(left=sums.left[:, :-1], right=sums.right[:, :-1], dtype=sums.dtype)
    return rounded_once(in_sequence(short), sums.dtype)


@pytest.mark.parametrize("terms", [72, 576, 2304])
def test_sums_in_float16_are_caught_by_rounding(terms: int) -> None:
    assert accepted(in_halves, many("float16", seed=5, terms=(terms,))) == 0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_operands_in_bfloat16_are_caught_by_rounding_and_by_nothing_exact(dtype: str) -> None:
    assert accepted(of_brains, many(dtype, seed=6)) == 0
    integers = integer_sums(np.random.default_rng(6), elements=256, terms=72, dtype=dtype)
    assert exactly(of_brains(integers), integers).status is Status.PASSED


@every_dtype
def test_a_product_less_is_caught_by_both(dtype: str) -> None:
    assert accepted(without_the_last, many(dtype, seed=7)) == 0
    integers = integer_sums(np.random.default_rng(7), elements=256, terms=72, dtype=dtype)
    assert exactly(without_the_last(integers), integers).status is Status.FAILED


@every_dtype
def test_one_element_that_is_one_percent_off_is_caught_where_it_can_be_seen(dtype: str) -> None:
    for sums in many(dtype, seed=8):
        given = rounded_once(blocked(sums), dtype)
        clear = int(np.argmax(np.abs(sums.expected) / sums.magnitude))
        wrong = given.copy()
        wrong[clear] = np.asarray(float(given[clear]) * 1.02, given.dtype)  # bf16: 2 or 3 steps
        verdict = by_rounding(wrong, sums)
        assert [element.index for element in verdict.first] == [(clear,)]


def test_truncated_hf32_operands_are_caught_by_expected_values_of_rounded_ones() -> None:
    for sums in many("float32", seed=9):
        right = Sums(
            left=round_to_hf32(sums.left), right=round_to_hf32(sums.right), dtype="float32"
        )
        rounded = Sums(left=hf32(sums.left), right=hf32(sums.right), dtype="float32")
        cut = Sums(
            left=hf32(sums.left, truncated=True),
            right=hf32(sums.right, truncated=True),
            dtype="float32",
        )
        assert by_rounding(blocked(rounded), right).status is Status.PASSED
        assert by_rounding(blocked(cut), right).status is Status.FAILED
        # Of operands that were not rounded, both are accepted with the unit of the rounding.
        assert by_rounding(blocked(rounded), sums, operand_unit=2.0**-12).errors == 0
        assert by_rounding(blocked(rounded), sums).errors > 0


def test_double_rounding_is_caught_by_rounding_in_most_tensors_and_by_exact_sums() -> None:
    assert accepted(through_half, many("bfloat16", seed=10, terms=(9, 72))) < 0.1
    above_midpoint = np.array([[4096.0, 16.0, 1.0]])  # of bfloat16, by less than float16 can tell
    sums = Sums(left=above_midpoint, right=np.ones((1, 3)), dtype="bfloat16")
    assert exactly(rounded_once(blocked(sums), "bfloat16"), sums).errors == 0
    assert exactly(through_half(sums), sums).errors == 1


@every_dtype
def test_a_swallowed_nan_is_caught_by_both(dtype: str) -> None:
    sums = integer_sums(np.random.default_rng(11), elements=20, terms=9, dtype=dtype)
    sums.left[3, 4] = np.nan
    given = rounded_once(in_sequence(sums), dtype)
    swallowed = given.copy()
    swallowed[3] = 0
    for verdict_of in (by_rounding, exactly):
        assert verdict_of(given, sums).status is Status.PASSED
        assert verdict_of(swallowed, sums).first[0].index == (3,)


def test_drawn_values_are_exact_in_their_dtype() -> None:
    values = np.random.default_rng(12).standard_normal(100)
    for dtype in DTYPES:
        once = as_dtype(values, dtype)
        np.testing.assert_array_equal(once.astype(dtype).astype(np.float64), once)


def test_sums_in_float16_pass_where_the_case_declares_them() -> None:
    for sums in many("float16", seed=13):
        rule = Rounding(magnitude=sums.magnitude, terms=sums.terms, accumulator="float16")
        pair = Pair(given=in_halves(sums), expected=sums.expected)
        assert judge("out", pair, rule, axes=("e",)).status is Status.PASSED


def test_errors_of_one_sign_are_within_the_proven_bound() -> None:
    tenth = np.full((4, 10_000), float(np.float32(0.1)))
    sums = Sums(left=tenth, right=np.ones_like(tenth), dtype="float32")
    (layer,) = by_rounding(in_sequence(sums), sums).layers
    assert layer.metrics["errors"] == 4
    assert layer.metrics["errors beyond the proven bound"] == 0
    assert by_rounding(blocked(sums), sums).errors == 0


@pytest.mark.parametrize("order", ["sequence", "pairwise", "blocked"])
def test_sums_of_products_that_underflow_pass(order: str) -> None:
    drawn = real_sums(np.random.default_rng(14), elements=300, terms=577, dtype="float32")
    sums = Sums(left=drawn.left * 2.0**-74, right=drawn.right * 2.0**-74, dtype="float32")
    verdict = by_rounding(ORDERS[order](sums), sums)
    assert verdict.status is Status.PASSED, verdict.reason
