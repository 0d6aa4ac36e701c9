"""Fills: bit for bit as documented, by an implementation without NumPy and its vectors."""

import re
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cases import plain_fill
from opserve_kernels.cases.case import DRAWN_KINDS, Fill, Kind
from opserve_kernels.cases.fill import (
    SPECIAL_BITS,
    bits_of,
    drawn,
    gaps,
    key_of,
    unwritten,
    words,
)
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

PAGE = Path(__file__).parents[3] / "docs/reference/conformance-cases.md"
CASE, SEED, TENSOR = "convolution_backward.ascend910b.0123456789abcdef", 7, "input"
VECTOR = re.compile(r"\| (\w+) \| (\w+) \| (\d+) \| (\d+) \| (\d+) \| `(\w+)` \| `(\w+)` \|")
BITS = {
    DataType.FLOAT: (8, 23),
    DataType.FLOAT16: (5, 10),
    DataType.BF16: (8, 7),
    DataType.DOUBLE: (11, 52),
}
"""Of the exponent and of the mantissa."""
FLOATING = tuple(BITS)


def _bits(kind: Kind, dtype: DataType, count: int, **changes: Any) -> NDArray[Any]:
    return bits_of(drawn(key_of(CASE, SEED, TENSOR), count, Fill(kind=kind, **changes), dtype))


@pytest.mark.parametrize("kind", DRAWN_KINDS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_elements_have_the_bits_of_plain_arithmetic(kind: Kind, dtype: DataType) -> None:
    changes = {"bound": 11, "thinning": 2} if kind == Kind.INTEGER else {}
    expected = [
        plain_fill.bits(
            plain_fill.word(CASE, SEED, TENSOR, place), dtype, kind, place=place, **changes
        )
        for place in range(300)
    ]

    assert _bits(kind, dtype, 300, **changes).tolist() == expected


def test_vectors_of_the_page_hold_for_both_implementations() -> None:
    vectors = VECTOR.findall(PAGE.read_text())
    assert len(vectors) >= 20
    for kind, dtype, bound, thinning, place, word, bits in vectors:
        changes = {"bound": int(bound), "thinning": int(thinning)}
        random = plain_fill.word(CASE, SEED, TENSOR, int(place))
        assert random == int(word, 16)
        given = plain_fill.bits(random, dtype, kind, place=int(place), **changes)
        assert given == int(bits, 16)
        elements = _bits(Kind(kind), DataType(dtype), int(place) + 1, **changes)
        assert elements[int(place)] == int(bits, 16)


def test_words_of_any_part_are_those_of_the_whole() -> None:
    whole = words(2**64 - 1, 0, 1000)

    np.testing.assert_array_equal(words(2**64 - 1, 700, 300), whole[700:])
    assert len(set(whole.tolist())) == 1000


def test_elements_beyond_one_chunk_continue_at_its_end() -> None:
    far = 600_001
    random = plain_fill.word(CASE, SEED, TENSOR, far)
    expected = plain_fill.bits(random, "FLOAT", "normal", place=far)

    assert _bits(Kind.NORMAL, DataType.FLOAT, far + 1)[far] == expected


def test_keys_differ_by_case_seed_and_tensor() -> None:
    keys = {
        key_of(case, seed, tensor)
        for case in ("a", "b")
        for seed in (0, 1, 10)
        for tensor in ("x", "w")
    }

    assert len(keys) == 12


@pytest.mark.parametrize(
    ("kind", "mean", "deviation", "largest"),
    [
        (Kind.INTEGER, 0.0, 3.742, 6.0),
        (Kind.UNIFORM, 0.0, 2.887, 5.0),
        (Kind.NORMAL, 0.0, 1.155, 4.0),
        (Kind.OFFSET, 3.0, 2.309, 11.0),
        (Kind.TINY, 0.0, 0.000564, 0.000977),
    ],
)
def test_values_are_distributed_as_the_page_says(
    kind: Kind, mean: float, deviation: float, largest: float
) -> None:
    count = 200_000
    values = drawn(99, count, Fill(kind=kind, bound=6), DataType.DOUBLE)

    assert abs(values.mean() - mean) < 5 * deviation / np.sqrt(count)
    assert values.std() == pytest.approx(deviation, rel=0.01)
    assert np.abs(values).max() <= largest


@pytest.mark.parametrize("dtype", FLOATING)
def test_all_special_values_occur_with_both_signs(dtype: DataType) -> None:
    given = set(bits_of(drawn(5, 1 << 15, Fill(kind=Kind.SPECIAL), dtype)).tolist())
    exponent_bits, mantissa_bits = BITS[dtype]
    large = 65504.0 if dtype is DataType.FLOAT16 else 2.0**60
    normal = 2.0 ** (2 - 2 ** (exponent_bits - 1))
    step = 2.0**-mantissa_bits
    magnitudes = [inf, nan, large, normal, normal * step, normal * (1 - step), 0.0, 1 + step]
    special = np.array(magnitudes, NUMPY_DTYPES[dtype])

    assert set(bits_of(special).tolist()) | set(bits_of(-special).tolist()) <= given


def test_outliers_are_one_in_1024() -> None:
    values = drawn(3, 1 << 20, Fill(kind=Kind.OUTLIERS), DataType.FLOAT)

    assert 600 < np.sum(np.abs(values) > 4) < 1400


@pytest.mark.parametrize("thinning", [0, 1, 5])
def test_thinning_keeps_one_of_a_power_of_two(thinning: int) -> None:
    fill = Fill(kind=Kind.INTEGER, bound=32, thinning=thinning)
    share = np.count_nonzero(drawn(4, 1 << 18, fill, DataType.FLOAT)) / (1 << 18)

    assert share == pytest.approx(2.0**-thinning * 64 / 65, rel=0.05)


def test_the_first_of_few_integers_is_not_0() -> None:
    fill = Fill(kind=Kind.INTEGER, bound=4, thinning=20)
    firsts = [drawn(key, 1, fill, DataType.FLOAT16)[0] for key in range(100)]

    assert set(firsts) == {4}
    assert drawn(1, 3, fill, DataType.FLOAT16).tolist() == [4, 0, 0]


@pytest.mark.parametrize("dtype", FLOATING)
def test_gaps_and_unwritten_elements_are_nans_that_differ(dtype: DataType) -> None:
    gap, element = gaps(3, dtype), unwritten(3, dtype)

    assert np.isnan(gap).all()
    assert np.isnan(element).all()
    assert (bits_of(gap) != bits_of(element)).all()


@pytest.mark.parametrize("dtype", FLOATING)
def test_no_operation_and_no_input_makes_the_nan_of_an_unwritten_element(dtype: DataType) -> None:
    (element,) = bits_of(unwritten(1, dtype))
    one = np.ones(1, NUMPY_DTYPES[dtype])
    with np.errstate(all="ignore"):
        made = [one * np.nan, one * np.inf - np.inf, np.sqrt(-one), one * np.inf * 0]
    computed = {int(bits_of(array.astype(one.dtype))[0]) for array in made}
    sign = 1 << (8 * one.itemsize - 1)
    assert int(element) not in computed | {bits & ~sign for bits in computed}
    assert int(element) not in SPECIAL_BITS[dtype]


def test_gaps_of_integers_are_bytes_of_a5() -> None:
    assert gaps(2, DataType.INT32).tobytes() == unwritten(2, DataType.INT32).tobytes()
    assert gaps(2, DataType.INT32).tobytes() == b"\xa5" * 8
