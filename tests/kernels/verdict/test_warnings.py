"""Values that are infinite, no numbers or at the ends of a range are judged without a warning.

A caller that turns warnings into errors, as a run of pytest may, must get a verdict all the same.
"""

from collections.abc import Generator
from itertools import product
from warnings import catch_warnings, simplefilter

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.cases.projection import Projection, random_signs
from opserve_kernels.verdict.checks import check_repeats, check_untouched, check_written
from opserve_kernels.verdict.dtypes import DTYPES, Given, rounded, ulps
from opserve_kernels.verdict.exact import Exact, as_stored
from opserve_kernels.verdict.judge import judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.projection import judge_projection
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.survey import LISTED, Rule
from opserve_kernels.verdict.vendor.grade import STANDARDS, grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import Overflow, Status

Doubles = NDArray[np.float64]
NUMPY = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in DTYPES}
ENDS = [0.0, 5e-324, 1e-310, 6e-8, 1.0, 65504.0, 65520.0, 3.4028235677973366e38, 1.7e308, np.inf]
STRANGE = np.array([*ENDS, *(-end for end in ENDS), np.nan])
DTYPE = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(autouse=True)
def _strict() -> Generator[None]:
    """Warnings are errors, as NumPy emits them by default."""
    with catch_warnings(), np.errstate(divide="warn", over="warn", invalid="warn"):
        simplefilter("error")
        yield


def cast(values: Doubles, dtype: str) -> Given:
    with np.errstate(all="ignore"):
        return values.astype(NUMPY[dtype])


def every_pair(dtype: str, overflow: Overflow = Overflow.INFINITE) -> Pair:
    """Each strange value of a dtype beside each strange expected value one."""
    given, expected = (np.array(side) for side in zip(*product(STRANGE, STRANGE), strict=True))
    return Pair(given=cast(given, dtype), expected=expected, overflow=overflow)


def rules(expected: Doubles) -> tuple[Rule, ...]:
    with np.errstate(all="ignore"):
        sizes = (np.abs(expected), np.abs(expected) * 1e3, np.zeros(expected.shape))
    few = (Rounding(magnitude=size, terms=9) for size in sizes)
    return (Exact(), *few, Rounding(magnitude=sizes[0], terms=1 << 60, roundings=("float16",)))


@DTYPE
@pytest.mark.parametrize("overflow", Overflow)
def test_wrong_results_are_judged(dtype: str, overflow: Overflow) -> None:
    pair = every_pair(dtype, overflow)
    for rule in rules(pair.expected):
        verdict = judge("out", pair, rule, axes=("w",))
        assert verdict.status is Status.FAILED
        assert len(verdict.first) == len(verdict.greatest) == LISTED


@DTYPE
@pytest.mark.parametrize("overflow", Overflow)
def test_right_results_are_judged(dtype: str, overflow: Overflow) -> None:
    right = as_stored(STRANGE, DTYPES[dtype], overflow)
    pair = Pair(given=right, expected=STRANGE, overflow=overflow)
    for rule in rules(STRANGE)[:2]:
        assert judge("out", pair, rule, axes=("w",)).reason == "out: all 21 elements are right"


@DTYPE
def test_no_elements_are_judged(dtype: str) -> None:
    none = np.empty((0, 3))
    pair = Pair(given=cast(none, dtype), expected=none)
    for rule in rules(none):
        assert judge("out", pair, rule, axes=("n", "c")).status is Status.PASSED


@DTYPE
def test_every_standard_is_reported(dtype: str) -> None:
    pair = every_pair(dtype)
    for precision, second in product((dtype, "hf32"), (None, pair.given[::-1])):
        subject = Subject(pair=pair, terms=9, precision=precision, of_weight=False, second=second)
        grades = grade(subject, names=list(STANDARDS))
        assert not any(layer.passed for layer in grades)


@DTYPE
def test_checks_look_at_bits(dtype: str) -> None:
    given = cast(STRANGE, dtype)
    assert check_written("out", given, STRANGE, given[-1:]).status is Status.PASSED
    assert check_untouched("x", given, given.copy()).status is Status.PASSED
    assert check_repeats("out", [given, given.copy()]).status is Status.PASSED


@DTYPE
def test_values_are_rounded_and_distinguished(dtype: str) -> None:
    found = rounded(STRANGE, DTYPES[dtype])
    assert np.isnan(found[-1].astype(np.float64))
    apart = ulps(found, found[::-1].copy(), DTYPES[dtype])
    assert np.isinf(apart[[0, -1]]).all()
    assert np.isfinite(apart[1:-1]).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_sums_of_channels_that_are_no_numbers_are_wrong(value: float) -> None:
    signs = random_signs("case", 0, "out", vectors=4, channels=8)
    expected = np.zeros((1, 4, 2))
    given = np.full((1, 8, 2), value, np.float32)
    projection = Projection(signs=signs, axis=1, groups=1)
    given[0, ::2] *= -1
    assert judge_projection("out", given, expected, projection).status is Status.FAILED
