"""Winograd's algorithm against the float64 oracle, for all that it computes."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.algorithms.direct_cases import (
    Case,
    expected_image,
    expected_output,
    expected_weight,
)
from kernels.algorithms.winograd_runs import (
    IMAGE,
    OUTPUT,
    WEIGHT,
    Arrays,
    operands_of,
    plan,
    result,
    with_transforms,
)
from kernels.oracles.expectation import Expectation, assert_meets
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.winograd import layout as winograd_layout
from opserve_kernels.algorithms.winograd import plan as winograd_plan
from opserve_kernels.algorithms.winograd.layout import LIMIT
from opserve_kernels.algorithms.winograd.plan import fits
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT16
from opserve_kernels.tensor import DataType

_CASES = {
    "one tile": Case(size=(1, 4, 4)),
    "one pixel": Case(size=(1, 1, 1), inputs=1, outputs=1),
    "one row": Case(size=(1, 1, 30), batch=2),
    "one column": Case(size=(1, 30, 1)),
    "odd sizes": Case(size=(1, 13, 11), batch=3),
    "a short last block": Case(inputs=33, outputs=32, size=(1, 19, 21), batch=4),
    "7x7": Case(size=(1, 7, 7), inputs=20, outputs=18, batch=4),
    "channels beside the vector": Case(inputs=33, outputs=50, size=(1, 9, 10)),
    "no padding": Case(padding=(0, 0, 0), size=(1, 12, 9)),
    "full padding": Case(padding=(0, 2, 2), size=(1, 5, 6)),
    "padding beyond the kernel": Case(padding=(0, 5, 4), size=(1, 3, 6), batch=2),
    "unlike padding": Case(padding=(0, 0, 3), size=(1, 8, 5)),
    "more padding behind": Case(more=(0, 2, 5), size=(1, 6, 7)),
    "dilated": Case(dilation=(1, 2, 2), padding=(0, 2, 2), size=(1, 17, 19), batch=2),
    "unlike dilations": Case(dilation=(1, 3, 1), padding=(0, 1, 2), size=(1, 14, 9)),
    "dilated beyond the image": Case(dilation=(1, 6, 7), padding=(0, 7, 7), size=(1, 3, 4)),
    "groups": Case(groups=3, inputs=12, outputs=15, size=(1, 8, 8)),
    "many tiles": Case(inputs=5, outputs=6, size=(1, 61, 70)),
    "more channels than a panel": Case(inputs=150, outputs=137, size=(1, 5, 5)),
    "5x5": Case(kernel=(1, 5, 5), padding=(0, 2, 2), size=(1, 11, 9), batch=2),
    "5x5 of one pixel": Case(kernel=(1, 5, 5), padding=(0, 2, 2), size=(1, 1, 1), inputs=1),
    "5x5, no padding": Case(kernel=(1, 5, 5), padding=(0, 0, 0), size=(1, 6, 8), inputs=17),
    "5x5, far padding": Case(kernel=(1, 5, 5), padding=(0, 6, 9), size=(1, 3, 4), outputs=18),
    "5x5, dilated": Case(
        kernel=(1, 5, 5), padding=(0, 4, 1), dilation=(1, 2, 3), size=(1, 10, 13), more=(0, 0, 2)
    ),
    "5x5, groups": Case(
        kernel=(1, 5, 5), padding=(0, 2, 2), groups=3, inputs=12, outputs=15, size=(1, 9, 21)
    ),
    "1x3": Case(kernel=(1, 1, 3), padding=(0, 0, 1), size=(1, 1, 50), batch=3),
    "1x3 of one pixel": Case(kernel=(1, 1, 3), padding=(0, 0, 1), size=(1, 1, 1), outputs=1),
    "1x3 in a plane": Case(kernel=(1, 1, 3), padding=(0, 2, 0), size=(1, 5, 9), inputs=35),
    "1x3, far padding": Case(kernel=(1, 1, 3), padding=(0, 0, 5), size=(1, 2, 3), outputs=20),
    "1x3, dilated": Case(
        kernel=(1, 1, 3), padding=(0, 0, 4), dilation=(1, 2, 4), size=(1, 3, 31), more=(0, 0, 3)
    ),
    "1x3, groups": Case(
        kernel=(1, 1, 3), padding=(0, 0, 1), groups=2, inputs=34, outputs=6, size=(1, 1, 19)
    ),
}
_ORACLES: dict[int, Callable[[Case, Arrays], Expectation]] = {
    IMAGE: expected_image,
    WEIGHT: expected_weight,
    OUTPUT: expected_output,
}
KERNELS = sorted(winograd_layout.KERNELS)
every_result = pytest.mark.parametrize(
    "wanted", [IMAGE, WEIGHT, OUTPUT], ids=["image", "weight", "output"]
)
every_case = pytest.mark.parametrize("name", list(_CASES))


def _arrays(name: str, case: Case) -> Arrays:
    return case.arrays(np.random.default_rng(crc32(name.encode())))


def _expected(case: Case, arrays: Arrays, wanted: int) -> Expectation:
    return with_transforms(case, _ORACLES[wanted](case, arrays), wanted)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a row of tiles, units of one step."""
    for name in ("_LEAST_TILES", "_LEAST_VALUES", "_MOST_VALUES", "_UNIT_PRODUCTS", "_UNIT_TILES"):
        monkeypatch.setattr(winograd_plan, name, 1)


@every_result
@every_case
def test_it_meets_the_oracle(name: str, wanted: int) -> None:
    arrays = _arrays(name, _CASES[name])

    found = result(_CASES[name], arrays, wanted)

    assert_meets(found, _expected(_CASES[name], arrays, wanted))


@pytest.mark.usefixtures("small_blocks")
@every_result
@every_case
def test_it_meets_the_oracle_block_by_block_and_slice_by_slice(name: str, wanted: int) -> None:
    arrays = _arrays(name, _CASES[name])

    whole = result(_CASES[name], arrays, wanted)
    sliced = result(_CASES[name], arrays, wanted, units=1)

    assert_meets(whole, _expected(_CASES[name], arrays, wanted))
    assert sliced.tobytes() == whole.tobytes()


@every_result
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_error_of_512_channels_is_within_2e_5_of_the_greatest_value(
    kernel: tuple[int, int], wanted: int
) -> None:
    padding = (0, kernel[0] // 2, kernel[1] // 2)
    inputs, outputs = (16, 512) if wanted == IMAGE else (512, 16)
    case = Case(
        kernel=(1, *kernel), padding=padding, inputs=inputs, outputs=outputs, size=(1, 5, 5)
    )
    arrays = _arrays("512 channels", case)

    found = result(case, arrays, wanted)

    value = _ORACLES[wanted](case, arrays).value
    assert np.max(np.abs(found - value)) <= 2e-5 * np.max(np.abs(value))


@every_result
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, LIMIT, -1e30])
@pytest.mark.parametrize(
    "name",
    [
        *("odd sizes", "dilated", "unlike dilations", "groups", "7x7", "a short last block"),
        *("5x5, dilated", "5x5, groups", "1x3, dilated", "1x3 in a plane"),
    ],
)
def test_values_that_transforms_would_spread_reach_what_they_touch_only(
    name: str, special: float, wanted: int
) -> None:
    case = _CASES[name]
    arrays = _arrays(name, case)
    for array in arrays:
        array.flat[array.size // 2] = special
        array.flat[0] = -0.0
    if special < 0 and np.isfinite(special):
        arrays[WEIGHT][...] = 1e-3

    found = result(case, arrays, wanted)

    assert_meets(found, _expected(case, arrays, wanted))


@pytest.mark.parametrize("wanted", [IMAGE, OUTPUT], ids=["image", "output"])
def test_the_last_kernel_of_many_is_looked_at_too(wanted: int) -> None:
    case = Case(inputs=530, outputs=530, size=(1, 2, 2))
    arrays = _arrays("last kernel", case)
    arrays[WEIGHT][-1, -1, 0, 1, 1] = np.inf

    found = result(case, arrays, wanted)

    assert_meets(found, _expected(case, arrays, wanted))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("special", [np.nan, LIMIT])
@every_result
@pytest.mark.parametrize("operand", [IMAGE, WEIGHT, OUTPUT], ids=["in x", "in w", "in y"])
@pytest.mark.parametrize("place", [0, -1])
def test_a_value_that_does_not_fit_leaves_all_to_a_direct_algorithm(
    place: int, operand: int, wanted: int, special: float
) -> None:
    case = Case(size=(1, 24, 8), inputs=4, outputs=4, batch=2)
    arrays = _arrays("direct", case)
    arrays[operand].flat[place] = special

    found = result(case, arrays, wanted)

    algorithm = Algorithm.OUTER if wanted == WEIGHT else Algorithm.PACKED
    direct = result(case, arrays, wanted, algorithm=algorithm)
    assert (found.tobytes() == direct.tobytes()) == (operand != wanted)


@pytest.mark.parametrize("inverse", [False, True])
@every_result
@pytest.mark.parametrize("kernel", KERNELS)
def test_values_just_below_the_limit_do_not_overflow(
    kernel: tuple[int, int], inverse: bool, wanted: int
) -> None:
    padding = (0, kernel[0] // 2, kernel[1] // 2)
    case = Case(kernel=(1, *kernel), padding=padding, inputs=40, outputs=40, size=(1, 8, 8))
    arrays = _arrays("limit", case)
    for array in arrays:
        array[...] = np.nextafter(np.float32(LIMIT), np.float32(0))
        array[...] *= np.where(np.indices(array.shape).sum(axis=0) % 2 == inverse, 1, -1)

    found = result(case, arrays, wanted)

    value = _ORACLES[wanted](case, arrays).value
    assert np.max(np.abs(found - value)) <= 2e-5 * case.inputs * prod(kernel) * LIMIT**2


def _any_size(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    sides = st.integers(least, most)
    return st.tuples(st.just(max(0, least)), sides, sides)


@st.composite
def _any_case(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 2]))
    padding = draw(_any_size(0, 6))
    case = Case(
        batch=draw(st.integers(1, 3)),
        kernel=(1, *draw(st.sampled_from(KERNELS))),
        groups=groups,
        inputs=groups * draw(st.integers(1, 20)),
        outputs=groups * draw(st.integers(1, 20)),
        size=draw(_any_size(1, 16)),
        padding=(0, padding[1], padding[2]),
        dilation=draw(_any_size(1, 4)),
        more=(0, draw(st.integers(0, 3)), draw(st.integers(0, 3))),
    )
    assume(min(case.output_size) > 0)
    return case


@every_result
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(case=_any_case(), least=st.sampled_from([1, 1 << 19]))
def test_any_convolution_of_its_kind_meets_the_oracle(wanted: int, case: Case, least: int) -> None:
    arrays = case.arrays(np.random.default_rng(7))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_plan, "_LEAST_TILES", 1)
        patch.setattr(winograd_plan, "_LEAST_VALUES", least)
        found = result(case, arrays, wanted)

    assert_meets(found, _expected(case, arrays, wanted))


def _channels_last(operand: Operand, shape: tuple[int, ...], offset: int) -> Operand:
    batch, channels, *positions = shape
    steps = [channels * prod(positions[axis + 1 :]) for axis in range(len(positions))]
    axes = tuple(zip(positions, steps, strict=True))
    entries = (batch, channels * prod(positions))
    return replace(operand, offset=offset, parts=(((channels, 1),), (entries, *axes)))


@every_result
@pytest.mark.parametrize("name", ["odd sizes", "unlike dilations"])
def test_halves_in_any_layout_are_rounded_once(name: str, wanted: int) -> None:
    case, offset = _CASES[name], 3
    arrays = _arrays(name, case)
    for array in arrays:
        array[...] = array.astype(np.float16)
    operands = [
        replace(operand, dtype=DataType.FLOAT16, number_format=FLOAT16)
        for operand in operands_of(case, arrays)
    ]
    buffers = [np.zeros(offset + array.size + array.size % 2 + 1, np.float16) for array in arrays]
    layouts: list[np.ndarray] = []
    for place, array in enumerate(arrays):
        values = buffers[place][offset : offset + array.size]
        shape = array.shape
        if place != WEIGHT:
            operands[place] = _channels_last(operands[place], shape, offset)
            layouts.append(np.moveaxis(values.reshape(shape[0], *shape[2:], shape[1]), -1, 1))
        else:
            operands[place] = replace(operands[place], offset=offset)
            layouts.append(values.reshape(shape))
        layouts[place][...] = array if place != wanted else np.nan

    plan(case, (operands[0], operands[1], operands[2]), wanted).execute([*buffers])

    expected = _expected(case, arrays, wanted)
    rounding = 2.0**-11 * np.abs(expected.value) + 2.0**-25
    wider = replace(expected, tolerance=expected.tolerance * (1 + 2.0**-11) + rounding)
    assert_meets(layouts[wanted], wider)


@every_result
@pytest.mark.parametrize("name", ["odd sizes", "5x5, no padding", "unlike dilations"])
def test_layouts_of_float32_have_the_same_bytes(name: str, wanted: int) -> None:
    """Adjacent rows are copied at once; channels last are loaded one by one."""
    case = _CASES[name]
    arrays = _arrays(name, case)
    operands = list(operands_of(case, arrays))
    buffers = [array.copy() for array in arrays]
    for place in (IMAGE, OUTPUT):
        operands[place] = _channels_last(operands[place], arrays[place].shape, 0)
        buffers[place] = np.ascontiguousarray(np.moveaxis(arrays[place], 1, -1))
    buffers[wanted][...] = np.nan

    plan(case, (operands[0], operands[1], operands[2]), wanted).execute(buffers)

    found = buffers[wanted] if wanted == WEIGHT else np.moveaxis(buffers[wanted], -1, 1)
    assert found.tobytes() == result(case, arrays, wanted).tobytes()


@every_result
def test_channels_that_a_tensor_lacks_are_zeros_and_are_not_written(wanted: int) -> None:
    case = Case(inputs=7, outputs=9, size=(1, 6, 9))
    arrays = _arrays("lacking", case)
    arrays[IMAGE][:, 5:] = 0
    arrays[OUTPUT][:, 6:] = 0
    image, weight, output = operands_of(case, arrays)
    image = replace(image, parts=((((5, image.parts[0][0][1]),)), image.parts[1]))
    output = replace(output, parts=((((6, output.parts[0][0][1]),)), output.parts[1]))
    buffers = [array.copy() for array in arrays]
    buffers[wanted][...] = 7
    for place, present in ((IMAGE, 5), (OUTPUT, 6)):
        buffers[place][:, present:] = np.nan

    plan(case, (image, weight, output), wanted).execute([*buffers])

    expected = _expected(case, arrays, wanted)
    channels = slice({IMAGE: 5, OUTPUT: 6}.get(wanted))
    parts = (slice(None), channels)
    known = Expectation(value=expected.value[parts], tolerance=expected.tolerance[parts])
    assert_meets(buffers[wanted][parts], known)
    lacking = buffers[wanted][:, known.value.shape[1] :]
    assert np.all(np.isnan(lacking))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"dilation": (1, 4, 3)}, True),
        ({"size": (1, 1, 1)}, True),
        ({"stride": (1, 1, 2)}, False),
        ({"kernel": (1, 5, 5), "padding": (0, 2, 2)}, True),
        ({"kernel": (1, 1, 3), "padding": (0, 0, 1)}, True),
        ({"kernel": (1, 3, 1)}, False),
        ({"kernel": (3, 1, 3)}, False),
        ({"kernel": (1, 7, 7), "padding": (0, 3, 3)}, False),
        ({"size": (1, 1, 400_000), "inputs": 1000}, False),
        ({"size": (2, 7, 6)}, False),
        ({"batch": 1 << 20}, False),
    ],
)
def test_it_fits_planes_of_certain_kernels_without_stride(
    changes: dict[str, tuple[int, int, int]],
    expected: bool,
) -> None:
    assert fits(replace(Case(), **changes).convolution) == expected  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@every_result
def test_the_workspace_of_a_large_call_is_bounded(wanted: int) -> None:
    case = Case(batch=16, inputs=64, outputs=64, size=(1, 224, 224))
    shapes = (case.batch, 64, *case.size), (64, 64, 1, 3, 3), (case.batch, 64, *case.output_size)
    arrays = [np.broadcast_to(np.float32(0), shape) for shape in shapes]

    planned = plan(case, operands_of(case, (arrays[0], arrays[1], arrays[2])), wanted)

    assert planned.workspace.size_bytes < 6_000_000
    assert planned.workspace.size_bytes % 512 == 0
