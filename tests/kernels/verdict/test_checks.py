"""Each check complains of what it is for, of those elements, and of nothing else."""

import numpy as np
import pytest

from opserve_kernels.verdict.checks import (
    check_gaps,
    check_repeats,
    check_untouched,
    check_written,
    elements_of_view,
)
from opserve_kernels.verdict.judge import conclude
from opserve_kernels.verdict.verdict import Check, Status

UNWRITTEN = np.array([0x7FC00001], np.uint32).view(np.float32)


def test_elements_that_were_not_written_are_found() -> None:
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert check_written("out", given, given.astype(float), UNWRITTEN).status is Status.PASSED
    expected = given.astype(float)
    given[1, 2] = UNWRITTEN[0]
    check = check_written("out", given, expected, UNWRITTEN)
    assert (check.status, check.elements, check.first) == (Status.FAILED, 1, ((1, 2),))


def test_an_expected_nan_counts_as_written() -> None:
    given = np.full(2, UNWRITTEN[0])
    assert check_written("out", given, np.array([np.nan, 1.0]), UNWRITTEN).first == ((1,),)


def test_gaps_between_elements_must_keep_their_bits() -> None:
    before = np.full(12, np.nan, np.float32)
    reached = elements_of_view(12, (2, 3), (6, 2), 1)
    after = before.copy()
    after[[1, 3, 5, 7, 9, 11]] = 7
    assert check_gaps("out", before, after, reached).status is Status.PASSED
    after[4] = 0
    assert check_gaps("out", before, after, reached).first == ((4,),)


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_a_view_of_nothing_reaches_nothing(shape: tuple[int, ...]) -> None:
    reached = elements_of_view(4, shape, (1,) * len(shape), 2)
    assert reached.sum() == np.prod(shape)


def test_an_input_that_changed_is_found_even_if_it_is_as_large() -> None:
    before = np.array([0.0, 1.0, np.nan], np.float16)
    assert check_untouched("weight", before, before.copy()).status is Status.PASSED
    after = np.array([-0.0, 1.0, np.nan], np.float16)
    check = check_untouched("weight", before, after)
    assert (check.status, check.first) == (Status.FAILED, ((0,),))


NANS = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)


def test_bits_count_and_not_values() -> None:
    """A NaN in another NaN's place, and -0 in that of +0."""
    plain, others = np.array([NANS[0], 0.0], np.float32), [NANS[1], NANS[2]]
    changed = [np.array([other, 0.0], np.float32) for other in others]
    changed.append(np.array([NANS[0], -0.0], np.float32))
    nowhere = np.zeros(2, np.bool)
    for other, place in zip(changed, (0, 0, 1), strict=True):
        for check in (
            check_untouched("x", plain, other),
            check_gaps("out", plain, other, nowhere),
            check_repeats("out", [plain, other]),
        ):
            assert check.first == ((place,),), check.name


def test_any_run_that_differs_from_the_first_is_found() -> None:
    one, other = np.zeros(3, np.float32), np.array([0, 0, 1], np.float32)
    for runs in ([one, other], [one, other, one], [one, one, other], [one, one, other, one]):
        assert check_repeats("out", runs).first == ((2,),)


def test_another_nan_was_written() -> None:
    given = np.array([NANS[0], NANS[1], NANS[2]])
    assert check_written("out", given, np.zeros(3), UNWRITTEN).first == ((1,),)


def test_repeats_that_differ_are_nondeterministic_and_named() -> None:
    first = np.ones((2, 2), np.float32)
    other = first.copy()
    other[0, 1] = np.nextafter(np.float32(1), np.float32(2))
    assert check_repeats("out", [first, first.copy()]).status is Status.PASSED
    check = check_repeats("out", [first, first, other])
    assert (check.status, check.first) == (Status.NONDETERMINISTIC, ((0, 1),))
    assert conclude("case", contract="1", checks=[check]).status is Status.NONDETERMINISTIC


def test_the_gravest_part_decides_a_case() -> None:
    ones = np.ones(2, np.float32)
    wrong = check_untouched("x", ones, ones * 2)
    trust = Check(name="trust", tensor="out", status=Status.MISTRUSTED, reason="zeros")
    repeats = check_repeats("out", [ones, ones * 2])
    for parts, status in (([], "PASSED"), ([trust], "MISTRUSTED"), ([trust, wrong], "FAILED")):
        assert conclude("case", contract="1", checks=parts).status == status
    verdict = conclude("case", contract="1", checks=[trust, wrong, repeats])
    assert (verdict.status, verdict.reason) == (Status.NONDETERMINISTIC, repeats.reason)
