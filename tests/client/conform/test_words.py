"""Sentences about the places where an output is wrong."""

from typing import Any

import numpy as np
import pytest

from opserve_client.conform.report.words import places
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import judge
from opserve_kernels.verdict.pair import Pair

AXES = ("n", "c", "h", "w")
EVERYTHING = slice(None)
WRONG = {
    "the last w (7 of 8)": (..., -1),
    "the first h (0 of 8)": (..., 0, EVERYTHING),
    "the last c (4 to 5 of 6)": (EVERYTHING, slice(4, None)),
    "every second h, from 1 on (of 8)": (..., slice(1, None, 2), EVERYTHING),
    "every third w, from 0 on (of 8)": (..., slice(0, None, 3)),
    "both ends of w (of 8)": (..., [0, -1]),
    "c (2 to 3 of 6)": (EVERYTHING, slice(2, 4)),
    "3 of 8 places of w, within 1 to 6": (..., [1, 2, 6]),
}


def described(*wrong: Any, shape: tuple[int, ...] = (2, 6, 8, 8)) -> list[str]:
    expected = np.zeros(shape)
    given = expected.astype(np.float32)
    for index in wrong:
        given[index] = 1
    output = judge("out", Pair(given=given, expected=expected), Exact(), axes=AXES)
    return [sentence.removeprefix("out: wrong only at ") for sentence in places(output)]


@pytest.mark.parametrize("pattern", WRONG)
def test_a_pattern_has_a_sentence(pattern: str) -> None:
    assert described(WRONG[pattern]) == [pattern]


def test_a_border_has_a_sentence() -> None:
    assert described((..., [0, -1]), (..., [0, -1], EVERYTHING)) == ["the border of h, w"]


def test_every_axis_with_a_pattern_has_a_sentence() -> None:
    assert described((1, 5, 2, 3)) == [
        "the last n (1 of 2)",
        "the last c (5 of 6)",
        "h (2 of 8)",
        "w (3 of 8)",
    ]


def test_right_and_entirely_wrong_outputs_have_no_sentence() -> None:
    assert described() == []
    assert described(...) == []


def test_a_cell_of_several_entries_is_described_by_its_entries() -> None:
    tail = (EVERYTHING, slice(4002, None))
    assert described(tail, shape=(1, 4095, 1, 1)) == ["the last c (4000 to 4094 of 4095)"]
