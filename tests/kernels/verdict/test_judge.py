"""The parts of a verdict: elements, histogram, maps and codes; and the memory that it takes."""

import tracemalloc

import numpy as np
import pytest

from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.maps import CELLS, heat_maps
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.survey import CHUNK, LISTED
from opserve_kernels.verdict.vendor.grade import grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import Code, Status


def test_an_element_is_described_by_index_values_and_distances() -> None:
    expected = np.array([[1.0, 2.0], [1 + 2.0**-13, -4.0]])
    given = np.array([[1, 2], [1 + 2.0**-9, -4]], np.float16)
    rule = Rounding(magnitude=np.abs(expected), terms=1)
    verdict = judge("out", Pair(given=given, expected=expected), rule, axes=("n", "c"))
    (element,) = verdict.first
    assert element.index == (1, 0)
    assert element.exact == 1 + 2.0**-13
    assert (element.expected, element.got, element.ulp) == (1.0, 1 + 2.0**-9, 2)
    assert element.absolute == 2.0**-9 - 2.0**-13
    assert element.relative == pytest.approx(element.absolute / element.exact)
    assert element.used == verdict.worst
    # 6 * 2^-24 of a magnitude of 1, and half a step of the result; the rest is of second order.
    assert element.used == pytest.approx(element.absolute / (2.0**-11 + 6 * 2.0**-24), rel=1e-3)
    assert verdict.reason.endswith(
        "1 of 4 elements are wrong, the first at (1, 0): 1.001953125 instead of 1.0"
    )


def test_first_and_worst_errors_are_distinguished_across_chunks() -> None:
    size = 3 * CHUNK
    expected = np.ones(size)
    given = expected.astype(np.float32)
    wrong = np.arange(5, size, CHUNK // 8)
    given[wrong] += np.arange(1, wrong.size + 1, dtype=np.float32)
    for rule in (Exact(), Rounding(magnitude=expected, terms=4)):
        verdict = judge("out", Pair(given=given, expected=expected), rule, axes=("c",))
        assert verdict.errors == wrong.size
        assert [e.index[0] for e in verdict.first] == wrong[:LISTED].tolist()
        assert [e.index[0] for e in verdict.greatest] == wrong[::-1][:LISTED].tolist()


def test_each_element_has_its_own_magnitude_in_every_chunk() -> None:
    expected = np.ones(2 * CHUNK + 3)
    magnitude = np.repeat([1.0, 1e4], [CHUNK, CHUNK + 3])
    given = expected.astype(np.float32)
    given[[5, CHUNK + 5, 2 * CHUNK + 1]] += np.float32(1e-3)
    rule = Rounding(magnitude=magnitude, terms=4)
    verdict = judge("out", Pair(given=given, expected=expected), rule, axes=("c",))
    assert [element.index for element in verdict.first] == [(5,)]


def test_the_worst_of_right_elements_is_reported() -> None:
    expected = np.full(3 * CHUNK, 1.0)
    given = expected.astype(np.float32)
    given[CHUNK + 7] += np.float32(2.0**-22)
    rule = Rounding(magnitude=expected, terms=9)
    verdict = judge("out", Pair(given=given, expected=expected), rule, axes=("c",))
    assert (verdict.status, verdict.first) == (Status.PASSED, ())
    assert [element.index for element in verdict.greatest] == [(CHUNK + 7,)]
    assert 0 < verdict.worst < 1


def test_a_histogram_counts_each_element_once() -> None:
    expected = np.zeros(6)
    tolerance = (4 + 2) * 2.0**-24  # of one product with a magnitude of 1
    used = [0.0, 0.005, 0.3, 0.9, 1.5, np.inf]
    given = np.array(used, np.float32) * np.float32(tolerance)
    rule = Rounding(magnitude=np.ones(6), terms=1)
    verdict = judge("out", Pair(given=given, expected=expected), rule, axes=("c",))
    names = [bin_.name for bin_ in verdict.histogram if bin_.elements]
    assert names == ["none", "up to 1 %", "up to 50 %", "up to 100 %", "up to 2 times", "infinite"]
    assert sum(bin_.elements for bin_ in verdict.histogram) == 6


def test_large_maps_are_folded_to_the_worst_of_neighbours() -> None:
    used = np.zeros((1, 1, 100, 37), np.float32)
    used[0, 0, [1, 99], [1, 36]] = 3, 2
    planes, positions = heat_maps(used, ("n", "c", "h", "w"))
    assert (planes.shape, planes.values) == ((1, 1), (3.0,))
    assert positions.sizes == (100, 37)
    assert np.prod(positions.shape) == len(positions.values) <= CELLS
    assert (positions.values[0], positions.values[-1], sum(positions.values)) == (3, 2, 5)
    rows, columns = (np.ceil(n / step) for n, step in zip((100, 37), positions.steps, strict=True))
    assert positions.shape == (rows, columns)


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_outputs_of_no_element_and_of_no_axis_are_judged(shape: tuple[int, ...]) -> None:
    expected = np.zeros(shape)
    pair = Pair(given=expected.astype(np.float32), expected=expected)
    for rule in (Exact(), Rounding(magnitude=expected, terms=1)):
        verdict = judge("out", pair, rule, axes=("n", "c")[: len(shape)])
        assert (verdict.status, verdict.elements) == (Status.PASSED, expected.size)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("float16", 0x7C01),
        ("bfloat16", 0x7F81),
        ("float32", 0x7F800001),
        ("float64", 0x7FF << 52 | 1),
    ],
)
def test_a_nan_that_signals_is_wrong_without_a_warning(dtype: str, bits: int) -> None:
    given = np.ones(3, np.dtype(dtype))
    given.view(f"u{given.itemsize}")[1] = bits
    pair, expected = Pair(given=given, expected=np.ones(3)), np.ones(3)
    standards = grade(Subject(pair=pair, terms=1, precision=dtype, of_weight=False))
    for rule in (Exact(), Rounding(magnitude=expected, terms=1)):
        verdict = judge("out", pair, rule, axes=("c",), reported=standards)
        assert [element.index for element in verdict.first] == [(1,)]


def test_arrays_in_any_order_of_memory_are_judged_by_index() -> None:
    expected = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    given = expected.astype(np.float32)
    given[3, 1, 2] = 0
    verdict = judge("out", Pair(given=given, expected=expected), Exact(), axes=("a", "b", "c"))
    assert [element.index for element in verdict.first] == [(3, 1, 2)]


def test_what_does_not_fit_is_refused() -> None:
    ones = np.ones((2, 2))
    with pytest.raises(ValueError, match="shape"):
        Pair(given=np.ones(4, np.float32), expected=ones)
    with pytest.raises(ValueError, match="int32"):
        Pair(given=np.ones((2, 2), np.int32), expected=ones)
    pair = Pair(given=ones.astype(np.float32), expected=ones)
    with pytest.raises(ValueError, match="axes"):
        judge("out", pair, Exact(), axes=("n",))
    with pytest.raises(ValueError, match="magnitude"):
        judge("out", pair, Rounding(magnitude=np.ones(4), terms=1), axes=("n", "c"))


PARAMETER, POINTER = Code(number=161002, name="PARAM_INVALID"), Code(number=161001)


@pytest.mark.parametrize(
    ("expected", "given", "passed"),
    [
        (PARAMETER, Code(number=161002), True),
        (PARAMETER, Code(name="PARAM_INVALID"), True),
        (PARAMETER, Code(number=161002, name="another word for it"), True),
        (PARAMETER, POINTER, False),
        (PARAMETER, Code(name="NULLPTR"), False),
        (POINTER, Code(name="NULLPTR"), False),
        (POINTER, Code(), False),
        (PARAMETER, None, False),
        (None, PARAMETER, False),
        (None, None, True),
    ],
)
def test_codes_are_compared_by_number_or_else_by_name(
    expected: Code | None, given: Code | None, *, passed: bool
) -> None:
    refusal = judge_refusal(expected, given)
    assert (refusal.status is Status.PASSED) is passed
    verdict = conclude("case", contract="1", refusal=refusal)
    assert verdict.status is refusal.status


def test_a_verdict_names_the_versions_of_its_rules() -> None:
    ones = np.ones(2)
    output = judge("out", Pair(given=ones.astype(np.float32), expected=ones), Exact(), axes=("c",))
    assert conclude("case", contract="1", outputs=[output]).standards == {"exact": "1"}


def test_a_verdict_takes_less_memory_than_its_expected_values() -> None:
    expected = np.random.default_rng(0).standard_normal((4, 64, 64, 64))
    given, rule = expected.astype(np.float32), Rounding(magnitude=np.abs(expected), terms=9)
    wrong = given + np.float32(1)
    for output in (given, wrong):
        tracemalloc.start()
        judge("out", Pair(given=output, expected=expected), rule, axes=("n", "c", "h", "w"))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < expected.nbytes + 16 * 8 * CHUNK
