"""The row kernels, generated and plain, against their definitions; nothing else is written."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen import plain_rows, rows
from opserve_kernels.algorithms.codegen.row_tiles import add_rows_tile, join_rows_tile
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]

_SIZES = [*range(1, 20), 31, 32, 33, 40]
_PLANES, _ROWS = 2, 3
_STARTS = (5, 3)
_KERNELS = ["generated", "plain"]
_MODULES: dict[str, Any] = {"generated": rows, "plain": plain_rows}
_OTHER_WIDTHS = sorted({4, 8, 16} - {LANES})
"""The module's functions are of LANES, and tried for themselves."""
each_kernel = pytest.mark.parametrize("kernel", _KERNELS)


def _numbers(count: int, reach: int, written: int) -> tuple[int, ...]:
    """Rows that are read and written so close to each other as they can be."""
    source = (_STARTS[0], _ROWS * reach + 2, reach)
    target = (_STARTS[1], _ROWS * (written + 1) + 2, written + 1)
    return (*source, *target, _PLANES, _ROWS, count)


def _memory(size: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    values = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    values[::7] = -0.0
    return values


@each_kernel
@pytest.mark.parametrize("step", [1, 2, 3])
def test_rows_are_copied_and_nothing_else(step: int, kernel: str) -> None:
    for count in _SIZES:
        _check_copies(count, step, kernel)


def _check_copies(count: int, step: int, kernel: str) -> None:
    reach = (count - 1) * step + 1
    numbers = _numbers(count, reach, count)
    read = _memory(_STARTS[0] + _ROWS * reach + 2 + _ROWS * reach, count)
    written = _memory(_STARTS[1] + 2 * (_ROWS * (count + 1) + 2), count + 1)
    wanted = written.copy()
    for plane, row, i in product(range(_PLANES), range(_ROWS), range(count)):
        at = numbers[0] + plane * numbers[1] + row * numbers[2] + i * step
        wanted[numbers[3] + plane * numbers[4] + row * numbers[5] + i] = read[at] + np.float32(0)

    module = _MODULES[kernel]
    if step > 2:
        module.step_rows(read, written, numbers, step, 1)
    else:
        (module.copy_rows if step == 1 else module.split_rows)(read, written, numbers)

    assert written.tobytes() == wanted.tobytes(), f"{count=}"


def test_an_exact_copy_keeps_each_bit_and_writes_nothing_else() -> None:
    for count in _SIZES:
        numbers = _numbers(count, count, count)
        read = _memory(_STARTS[0] + 2 * (_ROWS * count + 2), count)
        written = _memory(_STARTS[1] + 2 * (_ROWS * (count + 1) + 2), count + 1)
        wanted = written.copy()
        for plane, row in product(range(_PLANES), range(_ROWS)):
            source = numbers[0] + plane * numbers[1] + row * numbers[2]
            target = numbers[3] + plane * numbers[4] + row * numbers[5]
            wanted[target : target + count] = read[source : source + count]

        _MODULES["generated"].copy_rows_exactly(read, written, numbers)

        assert written.tobytes() == wanted.tobytes(), f"{count=}"


@each_kernel
def test_rows_are_added_once(kernel: str) -> None:
    for count in _SIZES:
        _check_sums(count, kernel)


def _check_sums(count: int, kernel: str) -> None:
    numbers = _numbers(count, count, count)
    read = _memory(_STARTS[0] + _ROWS * count + 2 + _ROWS * count, count)
    written = _memory(_STARTS[1] + 2 * (_ROWS * (count + 1) + 2) + LANES, count + 1)
    written += np.float32(0)  # sums are never -0
    wanted = written.copy()
    for plane, row, i in product(range(_PLANES), range(_ROWS), range(count)):
        at = numbers[0] + plane * numbers[1] + row * numbers[2] + i
        wanted[numbers[3] + plane * numbers[4] + row * numbers[5] + i] += read[at]

    _MODULES[kernel].add_rows(read, written, numbers, 1 << 20)

    assert written.tobytes() == wanted.tobytes(), f"{count=}"


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 8, 16])
def test_phases_are_dealt_into_rows_and_nothing_else(step: int) -> None:
    for count in (*range(1, 12), 16, 17, 33, 50, 271):
        _check_dealt_phases(count, step)


def _check_dealt_phases(count: int, step: int) -> None:
    length = -(-count // step)
    pitch = _STARTS[0] + _PLANES * (_ROWS * length + 2)
    numbers = _numbers(count, length, count)
    read = _memory(step * pitch, count)
    written = _memory(_STARTS[1] + 2 * (_ROWS * (count + 1) + 2), count + 1)
    wanted = written.copy()
    for plane, row, i in product(range(_PLANES), range(_ROWS), range(count)):
        at = numbers[0] + plane * numbers[1] + row * numbers[2] + i % step * pitch + i // step
        wanted[numbers[3] + plane * numbers[4] + row * numbers[5] + i] = read[at] + np.float32(0)

    rows.interleave_phases(read, written, numbers, step, pitch)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert written.tobytes() == wanted.tobytes(), f"{count=}"


@pytest.mark.parametrize("step", rows.JOINED)
def test_joined_plain_rows_are_those_of_the_generated(step: int) -> None:
    for count in _SIZES:
        _check_joined_rows(count, step)


def _check_joined_rows(count: int, step: int) -> None:
    numbers = _numbers(count, count, step * count)
    pitch = _STARTS[0] + 2 * (_ROWS * count + 2)
    read = _memory(step * pitch, count)
    written = [_memory(_STARTS[1] + 2 * (_ROWS * (step * count + 1) + 2), 1) for _ in range(2)]

    for module, array in zip(_MODULES.values(), written, strict=True):
        module.join_rows(read, array, numbers, step, pitch)

    assert written[0].tobytes() == written[1].tobytes(), f"{count=}"


@pytest.mark.parametrize("step", rows.JOINED)
@pytest.mark.parametrize("width", _OTHER_WIDTHS)
def test_the_generator_joins_rows_of_other_widths(width: int, step: int) -> None:
    tile = join_rows_tile(step, width)

    @compiled("void(float32[::1], float32[::1], UniTuple(int64, 10))")
    def join(read: Floats, written: Floats, numbers: tuple[int, ...]) -> None:
        tile(read, written, numbers)

    for count in (1, width - 1, 2 * width + 1):
        numbers, pitch = _numbers(count, count, step * count), 6 * count + 9
        read = _memory(step * pitch, count)
        written = [_memory(_STARTS[1] + 2 * (_ROWS * (step * count + 1) + 2), 1) for _ in range(2)]

        join(read, written[0], (*numbers, pitch))
        _MODULES["plain"].join_rows(read, written[1], numbers, step, pitch)

        assert written[0].tobytes() == written[1].tobytes()


@pytest.mark.parametrize("width", _OTHER_WIDTHS)
def test_the_generator_adds_rows_of_other_widths(width: int) -> None:
    tile = add_rows_tile(width)

    @compiled("void(float32[::1], float32[::1], UniTuple(int64, 10))")
    def add(read: Floats, written: Floats, numbers: tuple[int, ...]) -> None:
        tile(read, written, numbers)

    for count in (1, width - 1, 2 * width + 1):
        numbers = _numbers(count, count, count)
        read = _memory(_STARTS[0] + 2 * (_ROWS * count + 2), count)
        size = _STARTS[1] + 2 * (_ROWS * (count + 1) + 2) + width
        written = [np.zeros(size, dtype=np.float32) for _ in range(2)]

        add(read, written[0], (*numbers, 0))
        _MODULES["plain"].add_rows(read, written[1], numbers, 0)

        assert written[0].tobytes() == written[1].tobytes()
