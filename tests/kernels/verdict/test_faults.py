"""Faults of whole kernels: which layer or check catches each, on a convolution's gradients."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.oracles.convolution_backward import Geometry, gradients, magnitude
from kernels.verdict.computing import as_dtype
from opserve_kernels.cases.fill import unwritten
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.checks import check_repeats, check_written
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.verdict import HeatMap, OutputVerdict, Overflow, Status

Doubles = NDArray[np.float64]
GEOMETRY = Geometry(stride=(1, 1), padding=(1, 1), dilation=(1, 1), transposed=False, groups=1)
IMAGE_AXES, WEIGHT_AXES = ("n", "c", "h", "w"), ("k", "c", "kh", "kw")
BRAIN = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Of gradients with as many input as output channels, so that a weight can be transposed."""

    grad_output: Doubles
    image: Doubles
    weight: Doubles

    def gradients(self) -> tuple[Doubles, Doubles]:
        """grad_input and grad_weight."""
        found = gradients(self.grad_output, self.image, self.weight, GEOMETRY)
        return found.grad_input, found.grad_weight

    def magnitudes(self) -> tuple[Doubles, Doubles]:
        """The same of magnitudes."""
        found = magnitude(self.grad_output, self.image, self.weight, GEOMETRY)
        return found.grad_input, found.grad_weight


def drawn(*, integers: bool) -> Operands:
    random = np.random.default_rng(21)

    def draw(*shape: int) -> Doubles:
        if integers:
            return random.integers(-4, 5, shape).astype(float)
        return as_dtype(random.standard_normal(shape), "bfloat16")

    return Operands(grad_output=draw(2, 4, 5, 6), image=draw(2, 4, 5, 6), weight=draw(4, 4, 3, 3))


def without(array: Doubles, axis: int) -> Doubles:
    """The array with the last entry of an axis 0."""
    short = array.copy()
    np.moveaxis(short, axis, 0)[-1] = 0
    return short


FAULTS: dict[str, Callable[[Operands], tuple[Doubles, Doubles]]] = {
    "batch tail": lambda o: replace(o, grad_output=without(o.grad_output, 0)).gradients(),
    "channel tail": lambda o: replace(o, grad_output=without(o.grad_output, 1)).gradients(),
    "row tail": lambda o: replace(o, grad_output=without(o.grad_output, 2)).gradients(),
    "column tail": lambda o: replace(o, grad_output=without(o.grad_output, 3)).gradients(),
    "flipped kernel": lambda o: (
        replace(o, weight=o.weight[:, :, ::-1, ::-1]).gradients()[0],
        o.gradients()[1][:, :, ::-1, ::-1],
    ),
    "transposed kernel": lambda o: (
        replace(o, weight=o.weight.swapaxes(0, 1)).gradients()[0],
        o.gradients()[1].swapaxes(0, 1),
    ),
    "taps transposed": lambda o: (
        replace(o, weight=o.weight.swapaxes(2, 3)).gradients()[0],
        o.gradients()[1].swapaxes(2, 3),
    ),
    "padding off by one": lambda o: (
        np.roll(o.gradients()[0], 1, axis=3),
        np.roll(o.gradients()[1], 1, axis=3),
    ),
}


def judged(
    operands: Operands,
    given: tuple[Doubles, Doubles],
    *,
    integers: bool,
    dtype: np.dtype[np.generic],
) -> list[OutputVerdict]:
    found: list[OutputVerdict] = []
    rows = zip(
        ("grad_input", "grad_weight"),
        given,
        operands.gradients(),
        operands.magnitudes(),
        (4 * 9, 2 * 5 * 6),
        (IMAGE_AXES, WEIGHT_AXES),
        strict=True,
    )
    for name, value, expected, size, terms, axes in rows:
        rule = Exact() if integers else Rounding(magnitude=size, terms=terms)
        pair = Pair(given=value.astype(np.float32).astype(dtype), expected=expected)
        found.append(judge(name, pair, rule, axes=axes))
    return found


@pytest.mark.parametrize("integers", [True, False], ids=["exact", "rounding"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BRAIN], ids=str)
def test_right_gradients_pass(*, integers: bool, dtype: np.dtype[np.generic]) -> None:
    operands = drawn(integers=integers)
    for verdict in judged(operands, operands.gradients(), integers=integers, dtype=dtype):
        assert verdict.status is Status.PASSED, verdict.reason


@pytest.mark.parametrize("integers", [True, False], ids=["exact", "rounding"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BRAIN], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_indexing_are_caught_in_both_gradients(
    fault: str, *, integers: bool, dtype: np.dtype[np.generic]
) -> None:
    operands = drawn(integers=integers)
    for verdict in judged(operands, FAULTS[fault](operands), integers=integers, dtype=dtype):
        assert verdict.status is Status.FAILED, verdict.name


def map_of(verdict: OutputVerdict, axes: tuple[str, ...]) -> HeatMap:
    (found,) = (map_ for map_ in verdict.maps if map_.axes == axes)
    return found


def test_a_map_shows_which_columns_and_which_taps_are_wrong() -> None:
    operands = drawn(integers=True)
    image, weight = (value.copy() for value in operands.gradients())
    image[:, :, :, -1] += 1
    weight[:, :, 0, 2] += 1
    given = judged(operands, (image, weight), integers=True, dtype=np.dtype(np.float32))
    positions = np.reshape(map_of(given[0], ("h", "w")).values, (5, 6))
    np.testing.assert_array_equal(positions > 0, [[False] * 5 + [True]] * 5)
    taps = np.reshape(map_of(given[1], ("kh", "kw")).values, (3, 3))
    np.testing.assert_array_equal(np.argwhere(taps > 0), [[0, 2]])
    assert map_of(given[0], ("n", "c")).shape == (2, 4)
    assert map_of(given[1], ("k", "c")).shape == (4, 4)


@pytest.mark.parametrize("contract", Overflow)
@pytest.mark.parametrize("given", Overflow)
@pytest.mark.parametrize("integers", [True, False], ids=["exact", "rounding"])
def test_values_beyond_the_range_follow_the_contract(
    contract: Overflow, given: Overflow, *, integers: bool
) -> None:
    expected = np.array([70000.0, -1e9, 3.0, np.inf])
    with np.errstate(over="ignore"):
        halves = expected.astype(np.float16)
    if given is Overflow.SATURATED:
        halves = np.clip(halves, np.float16(-65504), np.float16(65504))
    rule = Exact() if integers else Rounding(magnitude=np.abs(expected), terms=9)
    pair = Pair(given=halves, expected=expected, overflow=contract)
    verdict = judge("out", pair, rule, axes=("c",))
    assert verdict.errors == (0 if contract is given else 3)


def test_an_output_that_was_left_as_it_was_is_caught_by_check_and_layer() -> None:
    operands = drawn(integers=True)
    expected, _ = operands.gradients()
    given = expected.astype(np.float32)
    given[1, 3] = unwritten(1, DataType.FLOAT)
    check = check_written("grad_input", given, expected, unwritten(1, DataType.FLOAT))
    assert (check.status, check.elements, check.first[0]) == (Status.FAILED, 30, (1, 3, 0, 0))
    verdict = judge("grad_input", Pair(given=given, expected=expected), Exact(), axes=IMAGE_AXES)
    assert (verdict.errors, verdict.first[0].index) == (30, (1, 3, 0, 0))


def test_a_race_that_flips_one_element_is_nondeterministic() -> None:
    expected, _ = drawn(integers=True).gradients()
    runs = [expected.astype(np.float32) for _ in range(5)]
    runs[3][0, 1, 2, 3] += 1
    verdict = conclude("case", contract="1", checks=[check_repeats("grad_input", runs)])
    assert verdict.status is Status.NONDETERMINISTIC
    assert "(0, 1, 2, 3)" in verdict.reason
