"""Each standard on both sides of each of its numbers, worked out by hand."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.vendor.grade import STANDARDS, grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import LayerResult, Overflow, Status

FLOAT, HALF, BRAIN = "float32", "float16", "bfloat16"
HF32 = "hf32"
LAST = {FLOAT: 2.0**-23, HALF: 2.0**-10, BRAIN: 2.0**-7}  # the last bit of 1


def near(
    value: float, error: float, *, of: int, wrong: int = 1, dtype: str = FLOAT
) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
    """Expected values that are all the same, and given ones some of which are off by an error."""
    expected = np.full(of, value)
    given = expected.copy()
    given[:wrong] += error
    return expected, given.astype(dtype)


def subject_of(
    expected: NDArray[np.float64], given: NDArray[np.generic], *, precision: str | None = None
) -> Subject:
    return Subject(
        pair=Pair(given=given, expected=expected),
        terms=9,
        precision=precision or given.dtype.name,
        of_weight=False,
    )


def result(name: str, subject: Subject) -> LayerResult:
    (found,) = grade(subject, names=[name])
    return found


ULP = LAST[FLOAT]
Edge = tuple[str, str, float, int, int, float, float]
EDGES: list[
    Edge
] = [  # standard, precision, value, elements, wrong ones, error that passes, error that fails
    ("cann-ecosystem", FLOAT, 1.0, 2, 1, 1.9 * 2**-13, 2.1 * 2**-13),
    ("cann-ecosystem", FLOAT, 1.0, 100, 1, 9.9 * 2**-13, 10.1 * 2**-13),
    ("cann-ecosystem", HF32, 1.0, 100, 1, 9.9 * 2**-11, 10.1 * 2**-11),
    ("cann-ecosystem", HALF, 1.0, 100, 1, 9 * 2**-10, 11 * 2**-10),
    ("cann-ecosystem", BRAIN, 1.0, 100, 1, 9 * 2**-7, 11 * 2**-7),
    ("cann-small-values", FLOAT, 2.0**-15, 1, 1, 2.0**-31, 2.0**-29),
    ("cann-small-values", HF32, 2.0**-13, 1, 1, 2.0**-29, 2.0**-27),
    ("cann-small-values", HALF, 2.0**-12, 1, 1, 2.0**-17, 2.0**-15),
    ("cann-small-values", BRAIN, 2.0**-9, 1, 1, 2.0**-16, 2.0**-15),
    ("cann-mixed", FLOAT, 1.0, 10, 10, 0.99 * (2**-10 + 2**-16), 1.01 * (2**-10 + 2**-16)),
    ("cann-mixed", HF32, 1.0, 10, 10, 0.99 * (2**-9 + 2**-10), 1.01 * (2**-9 + 2**-10)),
    ("cann-mixed", HALF, 1.0, 10, 10, 4 * 2**-10, 5 * 2**-10),
    ("cann-mixed", BRAIN, 1.0, 10, 10, 4 * 2**-7, 5 * 2**-7),
    ("cann-mixed", FLOAT, 60.0, 1000, 1, 0.99e-2, 1.01e-2),
    ("cann-mixed", HF32, 60.0, 1000, 1, 0.99e-1, 1.01e-1),
    ("cann-mixed", FLOAT, 2.0**20, 1000, 1, 32 * 2.0**-3, 33 * 2.0**-3),
    ("cann-mixed", HALF, 2.0**4, 1000, 1, 32 * 2.0**-6, 33 * 2.0**-6),
    ("cann-mixed", BRAIN, 2.0**4, 1000, 1, 32 * 2.0**-3, 33 * 2.0**-3),
    ("msprobe-thousandth", FLOAT, 1.0, 10, 1, 0.99e-3, 1.01e-3),
    ("msprobe-dual-hundredth", FLOAT, 1.0, 10, 1, 0.99e-2, 1.01e-2),
    ("msprobe-dual-thousandth", FLOAT, 1.0, 10, 1, 0.99e-3, 1.01e-3),
    ("msprobe-dual-ten-thousandth", FLOAT, 1.0, 10, 1, 0.99e-4, 1.01e-4),
    ("msprobe-cosine", FLOAT, 1.0, 10, 1, 0.99e-3, 1.01e-3),
    ("msprobe-ulp", FLOAT, 1.0, 10, 10, 63 * ULP, 65 * ULP),
    ("msprobe-ulp", HALF, 1.0, 10, 10, 2.0**-10, 2 * 2.0**-10),
    ("msprobe-ulp", BRAIN, 1.0, 10, 10, 2.0**-7, 2 * 2.0**-7),
    ("torch-assert-close", FLOAT, 1.0, 10, 1, 1.1e-5, 1.2e-5),
    ("torch-assert-close", FLOAT, 100.0, 10, 1, 1.3e-4, 1.5e-4),
    ("torch-assert-close", HALF, 1.0, 10, 1, 2.0**-10, 2 * 2.0**-10),
    ("torch-assert-close", BRAIN, 1.0, 10, 1, 2 * 2.0**-7, 3 * 2.0**-7),
    ("torch-assert-close", "float64", 1.0, 10, 1, 1.9e-7, 2.1e-7),
    ("webnn-ulp", FLOAT, 1.0, 10, 1, 18 * ULP, 19 * ULP),
    ("webnn-ulp", HALF, 1.0, 10, 1, 18 * 2.0**-10, 19 * 2.0**-10),
    ("miopen-rms", FLOAT, 1.0, 4, 1, 2.9e-6, 3.2e-6),
    ("miopen-rms", HALF, 1.0, 4, 1, 16 * 2.0**-10, 18 * 2.0**-10),
    ("miopen-rms", BRAIN, 1.0, 4, 1, 19 * 2.0**-7, 20 * 2.0**-7),
    ("tensorflow", FLOAT, 1.0, 10, 1, 1.9e-2, 2.1e-2),
    ("tensorflow", HALF, 1.0, 10, 1, 2 * 2.0**-10, 3 * 2.0**-10),
    ("mlu-ops", FLOAT, 1.0, 10, 10, 0.9e-5, 1.1e-5),
    ("mlu-ops", FLOAT, 1.0, 10, 1, 3.1e-5, 3.3e-5),
    ("mlu-ops", HALF, 1.0, 10, 1, 9 * 2.0**-10, 10 * 2.0**-10),
]


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: "-".join(map(str, edge[:4])))
def test_a_standard_applies_its_stated_limit(edge: Edge) -> None:
    name, precision, value, of, wrong, *errors = edge
    dtype = FLOAT if precision == HF32 else precision
    for error, good in zip(errors, (True, False), strict=True):
        expected, given = near(value, error, of=of, wrong=wrong, dtype=dtype)
        assert result(name, subject_of(expected, given, precision=precision)).passed is good


@pytest.mark.parametrize(
    ("name", "of", "passes", "fails"),
    [
        ("cann-mixed", 100, 1, 2),
        ("msprobe-thousandth", 1000, 1, 2),
        ("msprobe-dual-hundredth", 1000, 9, 10),
        ("msprobe-dual-thousandth", 2000, 1, 2),
        ("msprobe-dual-ten-thousandth", 20000, 1, 2),
    ],
)
def test_a_share_of_elements_may_be_wrong(name: str, of: int, passes: int, fails: int) -> None:
    error = {"cann-mixed": 0.005, "msprobe-dual-hundredth": 0.02}.get(name, 0.002)
    for wrong, good in ((passes, True), (fails, False)):
        assert result(name, subject_of(*near(1.0, error, of=of, wrong=wrong))).passed is good


@pytest.mark.parametrize(("dtype", "far", "of"), [(HALF, 2, 2000), (FLOAT, 20000, 40)])
def test_msprobe_counts_elements_that_are_far(dtype: str, far: int, of: int) -> None:
    for wrong, good in ((1, True), (2, False)):
        expected, given = near(1.0, far * LAST[dtype], of=of, wrong=wrong, dtype=dtype)
        assert result("msprobe-ulp", subject_of(expected, given)).passed is good


@pytest.mark.parametrize(
    ("name", "passes", "fails"), [("miopen-rms", 5.8e-6, 6.2e-6), ("tensorflow", 1.9e-4, 2.1e-4)]
)
def test_weights_have_separate_limits(name: str, passes: float, fails: float) -> None:
    for error, good in ((passes, True), (fails, False)):
        subject = replace(subject_of(*near(1.0, error, of=4)), of_weight=True)
        assert result(name, subject).passed is good


@pytest.mark.parametrize(
    ("times", "levels"), [(1.125, {0, 1, 2}), (1.375, {0, 1}), (1.75, {0}), (3.0, set[int]())]
)
def test_the_dual_benchmark_compares_errors_with_a_second_implementation(
    times: float, levels: set[int]
) -> None:
    expected, second = near(1.0, 2.0**-18, of=10, wrong=10)
    _, given = near(1.0, times * 2.0**-18, of=10, wrong=10)
    names = [f"cann-dual-l{level}" for level in range(3)]
    subject = replace(subject_of(expected, given), second=second)
    passed = {level for level, name in enumerate(names) if result(name, subject).passed}
    assert passed == levels


def test_the_dual_benchmark_counts_small_values_by_themselves() -> None:
    expected, second = near(2.0**-20, 2.0**-29, of=10, wrong=2)
    for wrong, good in ((4, True), (5, False)):
        _, given = near(2.0**-20, 2.0**-29, of=10, wrong=wrong)
        subject = replace(subject_of(expected, given), second=second)
        found = result("cann-dual-l0", subject)
        assert found.metrics["small errors ratio"] == wrong / 2
        assert found.passed is good


def test_a_cosine_sees_direction() -> None:
    expected, given = np.array([1e-4, 0.0]), np.array([0.0, 1e-4], np.float32)
    found = result("msprobe-cosine", subject_of(expected, given))
    assert found.metrics["cosine"] == 0
    assert not found.passed


def test_mlu_reports_the_share_of_positive_errors() -> None:
    expected, given = np.ones(4), np.array([1 + ULP, 1 + ULP, 1 - ULP, 1], np.float32)
    assert result("mlu-ops", subject_of(expected, given)).metrics["diff4"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", STANDARDS)
def test_every_standard_accepts_what_is_equal_and_nothing_infinite_on_one_side(name: str) -> None:
    expected = np.array([0.0, 1.0, -2.5, 3.0])
    right = expected.astype(np.float32)
    assert result(name, replace(subject_of(expected, right), second=right)).passed
    for strange in (np.nan, np.inf):
        wrong = right.copy()
        wrong[2] = strange
        assert not result(name, replace(subject_of(expected, wrong), second=right)).passed
        same = np.where(wrong == right, expected, strange)
        assert result(name, replace(subject_of(same, wrong), second=right)).passed


@pytest.mark.parametrize("name", STANDARDS)
def test_every_standard_accepts_an_output_of_no_elements(name: str) -> None:
    nothing = np.zeros((0, 3), np.float32)
    subject = subject_of(nothing.astype(np.float64), nothing)
    assert result(name, replace(subject, second=nothing)).passed


def test_a_saturated_value_is_right_where_the_contract_allows_it() -> None:
    expected, given = np.array([1e6]), np.array([65504.0], np.float16)
    for overflow, good in ((Overflow.SATURATED, True), (Overflow.INFINITE, False)):
        pair = Pair(given=given, expected=expected, overflow=overflow)
        subject = replace(subject_of(expected, given), pair=pair)
        assert result("cann-mixed", subject).passed is good


def test_standards_are_reported_and_gate_only_on_request() -> None:
    expected, given = near(1.0, 2.0**-10, of=10)
    subject = subject_of(expected, given)
    right = Pair(given=expected.astype(np.float32), expected=expected)
    reported = grade(subject, names=["torch-assert-close"])
    gating = grade(subject, names=["torch-assert-close"], gates=["torch-assert-close"])
    passed = judge("out", right, Exact(), axes=("c",), reported=reported)
    failed = judge("out", right, Exact(), axes=("c",), reported=gating)
    assert (passed.status, failed.status) == (Status.PASSED, Status.FAILED)
    assert "torch-assert-close" in failed.reason


@pytest.mark.parametrize(
    ("names", "gates"),
    [
        (["torch"], []),
        (["mlu-ops"], ["cann-mixed"]),
        (["mlu-ops"], ["mlu-ops"]),  # it has no numbers for bfloat16
        (["cann-dual-l0"], ["cann-dual-l0"]),  # there is no second implementation
    ],
)
def test_a_gate_that_would_never_close_is_refused(names: list[str], gates: list[str]) -> None:
    ones = np.ones(2)
    subject = subject_of(ones, ones.astype(ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match=r"standards|gates"):
        grade(subject, names=names, gates=gates)


def test_standards_without_numbers_for_a_dtype_are_left_out() -> None:
    ones = np.ones(2)
    names = [found.name for found in grade(subject_of(ones, ones.astype(ml_dtypes.bfloat16)))]
    assert "cann-mixed" in names
    assert not {"mlu-ops", "webnn-ulp", "tensorflow", "cann-dual-l0"} & set(names)
