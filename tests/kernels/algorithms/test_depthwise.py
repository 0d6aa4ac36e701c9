"""The depthwise algorithm against the float64 oracle, whatever the layout of its tensors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.algorithms.direct_cases import (
    GUARD,
    GUARD_VALUE,
    Case,
    Floats,
    expected_image,
    expected_output,
    expected_weight,
    image_operand,
    weight_operand,
)
from kernels.oracles.expectation import Expectation, assert_meets
from opserve_kernels.algorithms import depthwise, depthwise_plan
from opserve_kernels.algorithms.depthwise import run_depthwise
from opserve_kernels.algorithms.depthwise_plan import depthwise_stages, fits
from opserve_kernels.algorithms.plain_depthwise import (
    compare,
    compare_carefully,
    weigh,
    weigh_carefully,
)
from opserve_kernels.gradients import Diagonal, Gradients, Operand
from opserve_kernels.number_formats import BF16, FLOAT16
from opserve_kernels.stages import Stage
from opserve_kernels.tensor import DataType
from opserve_kernels.workspace import Workspace

Arrays = tuple[Floats, Floats, Floats]
UNUSED = np.uint32(0xFFFFFFFF)  # a NaN that no kernel writes
IMAGE, WEIGHT, OUTPUT = range(3)
_KIND = 99
_PLACES = 3


def _case(name: str = "", multiplier: int = 1, **changes: object) -> Case:
    del name
    channels = 3
    case = Case(groups=channels, inputs=channels, outputs=channels * multiplier)
    return replace(case, **changes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


_CASES = {
    "3x3": _case(batch=2),
    "one pixel": _case(size=(1, 1, 1), batch=3),
    "one pixel under one tap": _case(size=(1, 1, 1), kernel=(1, 1, 1), padding=(0, 0, 0)),
    "14x14": _case(size=(1, 14, 14), batch=5),
    "7x7": _case(size=(1, 7, 7), batch=9),
    "5x5 taps": _case(size=(1, 13, 12), kernel=(1, 5, 5), padding=(0, 2, 2), batch=2),
    "7x7 taps": _case(size=(1, 9, 9), kernel=(1, 7, 7), padding=(0, 3, 3)),
    "stride 2": _case(size=(1, 9, 8), stride=(1, 2, 2), batch=2),
    "stride 2, even taps": _case(size=(1, 10, 11), kernel=(1, 4, 2), stride=(1, 2, 2)),
    "stride 3": _case(size=(1, 11, 10), stride=(1, 3, 3), batch=2),
    "stride beyond the kernel": _case(size=(1, 8, 9), kernel=(1, 2, 2), stride=(1, 4, 5)),
    "unlike strides": _case(size=(1, 9, 20), kernel=(1, 4, 5), stride=(1, 3, 2)),
    "dilated": _case(size=(1, 9, 9), dilation=(1, 2, 3), padding=(0, 2, 3)),
    "dilated beyond the image": _case(size=(1, 4, 4), dilation=(1, 6, 6), padding=(0, 6, 6)),
    "dilated and strided": _case(size=(1, 9, 9), dilation=(1, 2, 3), stride=(1, 3, 2)),
    "padding beyond the kernel": _case(size=(1, 3, 4), padding=(0, 5, 6)),
    "more padding behind": _case(size=(1, 6, 6), stride=(1, 2, 2), more=(0, 1, 1)),
    "multiplier": _case(multiplier=3, size=(1, 6, 7), stride=(1, 2, 1), batch=2),
    "1-D": _case(size=(1, 1, 30), kernel=(1, 1, 7), padding=(0, 0, 3), batch=2),
    "1-D, strided": _case(size=(1, 1, 90), kernel=(1, 1, 10), padding=(0, 0, 0), stride=(1, 1, 5)),
    "3-D": _case(size=(4, 5, 6), kernel=(3, 3, 3), padding=(1, 1, 1), batch=2),
    "3-D, strided": _case(size=(5, 4, 6), kernel=(2, 3, 3), padding=(1, 0, 1), stride=(2, 2, 1)),
}
_LONG = {
    "rows": _case(size=(1, 20, 21), batch=2),
    "strided rows": _case(size=(1, 33, 14), kernel=(1, 5, 3), stride=(1, 2, 2), batch=2),
    "padded rows": _case(size=(1, 30, 6), padding=(0, 9, 1)),
    "columns": _case(size=(1, 1, 400), kernel=(1, 1, 7), padding=(0, 0, 9), stride=(1, 1, 3)),
    "planes": _case(size=(12, 5, 5), kernel=(3, 3, 3), padding=(1, 1, 1), multiplier=2),
    "one plane of sums": _case(size=(3, 30, 8), kernel=(3, 3, 3), padding=(0, 1, 1)),
}
_ORACLES: dict[int, Callable[[Case, Arrays], Expectation]] = {
    IMAGE: expected_image,
    WEIGHT: expected_weight,
    OUTPUT: expected_output,
}
every_result = pytest.mark.parametrize(
    "wanted", [IMAGE, WEIGHT, OUTPUT], ids=["image", "weight", "output"]
)
every_case = pytest.mark.parametrize("name", list(_CASES))


def _operands(case: Case, arrays: Arrays) -> tuple[Operand, Operand, Operand]:
    return (
        image_operand(IMAGE, arrays[IMAGE].shape),
        weight_operand(WEIGHT, arrays[WEIGHT].shape, case.groups),
        image_operand(OUTPUT, arrays[OUTPUT].shape),
    )


def _gradients(case: Case, operands: tuple[Operand, Operand, Operand], wanted: int) -> Gradients:
    image, weight, output = operands
    return Gradients(
        convolution=case.convolution,
        image=None if wanted == IMAGE else image,
        weight=None if wanted == WEIGHT else weight,
        output=None if wanted == OUTPUT else output,
        grad_image=image if wanted == IMAGE else None,
        grad_weight=weight if wanted == WEIGHT else None,
        grad_output=output if wanted == OUTPUT else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    stage: Stage
    workspace_size: int

    def run(self, buffers: list[NDArray[Any]], *, units: int | None = None) -> None:
        """Runs in slices, in a workspace of NaNs between guards."""
        memory = np.full(self.workspace_size // 4 + 2 * GUARD, GUARD_VALUE, dtype=np.float32)
        scratch = memory[GUARD:-GUARD]
        scratch.view(np.uint32)[:] = UNUSED
        parameters = np.array(self.stage.parameters, dtype=np.int64)
        tensors: list[Any] = []
        for place in self.stage.parameters[:_PLACES]:
            data = buffers[place].view(np.uint8)
            whole = data[: data.size // 4 * 4]
            tensors += [whole.view(np.float32), data.view(np.uint16)]
        step, run = units or self.stage.units, cast("Callable[..., None]", run_depthwise)
        for first in range(0, self.stage.units, step):
            last = min(first + step, self.stage.units)
            memory_of_stage = (parameters[_PLACES:], scratch, scratch.view(np.int32))
            run(*memory_of_stage, *tensors, first, last)
        assert np.all(memory[:GUARD] == GUARD_VALUE)
        assert np.all(memory[-GUARD:] == GUARD_VALUE)
        parts = scratch.view(np.uint32).reshape(-1, 128)
        assert np.all(np.any(parts != UNUSED, axis=1)), "a part of the workspace is not used"


def _planned(gradients: Gradients) -> _Planned:
    assert fits(gradients)
    workspace = Workspace()
    (stage,) = depthwise_stages(_KIND, gradients, workspace)
    return _Planned(stage=stage, workspace_size=workspace.size_bytes)


def _result(case: Case, arrays: Arrays, wanted: int, *, units: int | None = None) -> Floats:
    """Of contiguous tensors, each between guards."""
    guard = np.full(GUARD, GUARD_VALUE, dtype=np.float32)
    inputs = [np.full_like(a, np.nan) if i == wanted else a for i, a in enumerate(arrays)]
    guarded = [np.concatenate([guard, array.ravel(), guard]) for array in inputs]

    planned = _planned(_gradients(case, _operands(case, arrays), wanted))
    planned.run([array[GUARD:-GUARD] for array in guarded], units=units)

    for place, array in enumerate(guarded):
        assert np.all(array[:GUARD] == GUARD_VALUE)
        assert np.all(array[-GUARD:] == GUARD_VALUE)
        if place != wanted:
            np.testing.assert_array_equal(array[GUARD:-GUARD], inputs[place].ravel())
    return guarded[wanted][GUARD:-GUARD].reshape(arrays[wanted].shape)


def _arrays(name: str, case: Case) -> Arrays:
    return case.arrays(np.random.default_rng(crc32(name.encode())))


@every_result
@every_case
def test_it_meets_the_oracle(name: str, wanted: int) -> None:
    arrays = _arrays(name, _CASES[name])

    result = _result(_CASES[name], arrays, wanted)

    assert_meets(result, _ORACLES[wanted](_CASES[name], arrays))


@every_result
@pytest.mark.parametrize("elements", [60, 200])
@pytest.mark.parametrize("name", list(_LONG))
def test_images_that_are_cut_into_blocks_meet_it_too(
    monkeypatch: pytest.MonkeyPatch, name: str, elements: int, wanted: int
) -> None:
    monkeypatch.setattr(depthwise_plan, "_COPY_ELEMENTS", elements)
    monkeypatch.setattr(depthwise_plan, "_MOST_IN_PLACE", 0)
    monkeypatch.setattr(depthwise_plan, "_UNIT_PRODUCTS", 1)
    arrays = _arrays(name, _LONG[name])

    whole = _result(_LONG[name], arrays, wanted)
    sliced = _result(_LONG[name], arrays, wanted, units=1)

    assert_meets(whole, _ORACLES[wanted](_LONG[name], arrays))
    assert sliced.tobytes() == whole.tobytes()


@every_result
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "name", ["3x3", "7x7", "stride 2", "dilated and strided", "multiplier", "3-D"]
)
def test_values_that_are_not_finite_reach_what_they_touch_only(
    name: str, special: float, wanted: int
) -> None:
    arrays = _arrays(name, _CASES[name])
    for array in arrays:
        array.flat[array.size // 2] = special
        array.flat[0] = -0.0

    result = _result(_CASES[name], arrays, wanted)

    assert_meets(result, _ORACLES[wanted](_CASES[name], arrays))


@every_result
@pytest.mark.parametrize("name", ["3x3", "stride 2", "unlike strides", "multiplier", "3-D"])
def test_plain_kernels_meet_the_oracle(
    monkeypatch: pytest.MonkeyPatch, name: str, wanted: int
) -> None:
    arrays = _arrays(name, _CASES[name])
    monkeypatch.setattr(depthwise_plan, "_IN_PLACE_KERNELS", ())
    monkeypatch.setattr(depthwise, "weigh", weigh)
    monkeypatch.setattr(depthwise, "compare", compare)

    result = _result(_CASES[name], arrays, wanted)

    assert_meets(result, _ORACLES[wanted](_CASES[name], arrays))


def _sizes(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def _any_case(draw: st.DrawFn) -> Case:
    groups = draw(st.integers(1, 3))
    case = Case(
        batch=draw(st.integers(1, 4)),
        groups=groups,
        inputs=groups,
        outputs=groups * draw(st.integers(1, 4)),
        size=draw(_sizes(1, 12)),
        kernel=draw(_sizes(1, 4)),
        stride=draw(_sizes(1, 4)),
        padding=draw(_sizes(0, 5)),
        dilation=draw(_sizes(1, 3)),
        more=draw(_sizes(0, 1)),
    )
    assume(min(case.output_size) > 0 and prod(case.output_size) < 900)
    return case


@every_result
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(case=_any_case(), elements=st.sampled_from([50, 4096]))
def test_any_convolution_meets_the_oracle(wanted: int, case: Case, elements: int) -> None:
    arrays = case.arrays(np.random.default_rng(7))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depthwise_plan, "_COPY_ELEMENTS", elements)
        result = _result(case, arrays, wanted)

    assert_meets(result, _ORACLES[wanted](case, arrays))


@st.composite
def _usual_case(draw: st.DrawFn) -> Case:
    groups, taps, stride = (draw(st.sampled_from(some)) for some in ((1, 2), (3, 5), (1, 2)))
    padding, more = (
        (0, draw(st.integers(0, most)), draw(st.integers(0, most))) for most in (7, stride)
    )
    case = Case(
        batch=draw(st.integers(1, 3)),
        groups=groups,
        inputs=groups,
        outputs=groups,
        size=(1, draw(st.integers(1, 12)), draw(st.integers(1, 70))),
        kernel=(1, taps, taps),
        stride=(1, stride, stride),
        padding=padding,
        more=more,
    )
    assume(min(case.output_size) > 0)
    return case


@every_result
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(case=_usual_case(), special=st.sampled_from([None, np.inf]))
def test_usual_kernels_meet_the_oracle(wanted: int, case: Case, special: float | None) -> None:
    arrays = case.arrays(np.random.default_rng(8))
    if special is not None:
        for array in arrays:
            array.flat[array.size // 3] = special

    result = _result(case, arrays, wanted, units=1)

    assert_meets(result, _ORACLES[wanted](case, arrays))


def _channels_last(operand: Operand, shape: tuple[int, ...], offset: int) -> Operand:
    batch, channels, *positions = shape
    steps = [channels * prod(positions[axis + 1 :]) for axis in range(len(positions))]
    axes = tuple(zip(positions, steps, strict=True))
    entries = (batch, channels * prod(positions))
    return replace(operand, offset=offset, parts=(((channels, 1),), (entries, *axes)))


def _as_patterns(array: Floats, dtype: DataType) -> NDArray[np.uint16]:
    if dtype == DataType.FLOAT16:
        return array.astype(np.float16).view(np.uint16)
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def _as_values(patterns: NDArray[np.uint16], dtype: DataType) -> Floats:
    if dtype == DataType.FLOAT16:
        return patterns.view(np.float16).astype(np.float32)
    return (patterns.astype(np.uint32) << 16).view(np.float32)


@every_result
@pytest.mark.parametrize("name", ["3x3", "stride 2", "stride 3", "1-D", "3-D, strided"])
@pytest.mark.parametrize("limits", [(100, 0), (4096, 0), (4096, 4096)])
@pytest.mark.parametrize(
    ("dtype", "number_format"), [(DataType.FLOAT16, FLOAT16), (DataType.BF16, BF16)]
)
def test_small_integers_in_halves_and_channels_last_are_exact(
    monkeypatch: pytest.MonkeyPatch,
    dtype: DataType,
    number_format: int,
    limits: tuple[int, int],
    name: str,
    wanted: int,
) -> None:
    monkeypatch.setattr(depthwise_plan, "_COPY_ELEMENTS", limits[0])
    monkeypatch.setattr(depthwise_plan, "_MOST_IN_PLACE", limits[1])
    case, offset = _CASES[name], 3
    arrays = _arrays(name, case)
    for array in arrays:
        array[...] = np.sign(np.round(array)) * (np.abs(array) > 1)
    operands = [
        replace(operand, dtype=dtype, number_format=number_format)
        for operand in _operands(case, arrays)
    ]
    for place in (IMAGE, OUTPUT):
        operands[place] = _channels_last(operands[place], arrays[place].shape, offset)
    orders = [np.moveaxis(arrays[IMAGE], 1, -1), arrays[WEIGHT], np.moveaxis(arrays[OUTPUT], 1, -1)]
    buffers = [
        np.concatenate([np.full(offset, 7, np.uint16), _as_patterns(order.ravel(), dtype)])
        if place != WEIGHT
        else _as_patterns(order.ravel(), dtype)
        for place, order in enumerate(orders)
    ]
    buffers = [buffer if buffer.size % 2 == 0 else np.append(buffer, 9) for buffer in buffers]
    buffers = [buffer.astype(np.uint16) for buffer in buffers]

    gradients = _gradients(case, (operands[0], operands[1], operands[2]), wanted)
    _planned(gradients).run([*buffers])

    start = 0 if wanted == WEIGHT else offset
    written = _as_values(buffers[wanted][start:][: arrays[wanted].size], dtype)
    found = written.reshape(orders[wanted].shape)
    value = _ORACLES[wanted](case, arrays).value
    assert np.max(np.abs(value)) < 256
    np.testing.assert_array_equal(found if wanted == WEIGHT else np.moveaxis(found, -1, 1), value)
    assert np.all(buffers[wanted][:start] == 7)


def test_stages_of_a_call_share_the_workspace() -> None:
    case = _CASES["stride 2"]
    arrays = _arrays("stages", case)
    image, weight, output = _operands(case, arrays)
    both = replace(
        _gradients(case, (image, weight, output), IMAGE), image=image, grad_weight=weight
    )
    apart = [
        _planned(_gradients(case, (image, weight, output), wanted)) for wanted in (IMAGE, WEIGHT)
    ]
    workspace = Workspace()
    workspace.reserve(1)
    before = workspace.size_bytes

    stages = depthwise_stages(_KIND, both, workspace)

    assert [stage.units for stage in stages] == [planned.stage.units for planned in apart]
    assert workspace.size_bytes == before + max(planned.workspace_size for planned in apart)


def test_other_calls_do_not_fit() -> None:
    case = _CASES["3x3"]
    operands = _operands(case, _arrays("fits", case))
    gradients = _gradients(case, operands, IMAGE)
    diagonal = Diagonal(groups=3, extend=1, input_channels=1, output_channels=1)
    fewer = replace(operands[OUTPUT], parts=(((2, 1),), operands[OUTPUT].parts[1]))

    assert fits(gradients)
    assert not fits(replace(gradients, diagonal=diagonal))
    assert not fits(replace(gradients, output=fewer))
    assert not fits(replace(gradients, convolution=replace(case.convolution, input_channels=2)))
    assert not fits(replace(gradients, convolution=replace(case.convolution, output_channels=5)))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 17, 33, 64, 65, 200])
@pytest.mark.parametrize("taps", [1, 2, 3, 5, 9, 10, 25])
def test_generated_plain_and_careful_kernels_agree(taps: int, count: int) -> None:
    rng = np.random.default_rng(count * 100 + taps)
    memory = rng.integers(-3, 4, 2000).astype(np.float32)
    memory[memory == 0] = 0.0
    table = memory.view(np.int32)
    weights, offsets, source, target = 0, 50, 100, 1000
    table[offsets : offsets + taps] = rng.integers(-20, 300, taps)
    memory[target - 60 : target] = 1
    left = 800
    memory[left + count : left + count + 64] = 0
    copies = [memory.copy() for _ in range(3)]
    numbers = (taps, weights, offsets, source + 20, target, count)

    for kernel, own in zip((depthwise.weigh, weigh, weigh_carefully), copies, strict=True):
        kernel(own, own.view(np.int32), numbers)

    sums = [own[target : target + count] for own in copies]
    for own in sums[1:]:
        np.testing.assert_array_equal(own, sums[0])
    totals = (taps, left, offsets, source + 20, 50 - 30, count)
    copies = [memory.copy() for _ in range(3)]
    for kernel, own in zip((depthwise.compare, compare, compare_carefully), copies, strict=True):
        kernel(own, own.view(np.int32), totals)
    for own in copies[1:]:
        np.testing.assert_array_equal(own[20 : 20 + taps], copies[0][20 : 20 + taps])
