"""Values of the workspace: copied, filled and checked."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.copies import copy_run, copy_steps, separate
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.loops import compiled
from opserve_kernels.sums import are_finite

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Offsets = NDArray[np.int32]
Integers = NDArray[np.int64]

_copy_run = copy_run(LANES)
_copy_steps = copy_steps()
_separate = separate(TILE_ROWS)


@compiled("void(float32[::1], int64, int64, int64, int64)")
def copy_strided(scratch: Floats, source: int, step: int, target: int, count: int) -> None:
    """Copies values of the workspace that are `step` apart to contiguous ones."""
    if step == 1:
        _copy_run(scratch, scratch, (source, target, count))
    else:
        _copy_steps(scratch, scratch, (source, step, target, 1, count))


@compiled("void(float32[::1], int64, int64, float32)")
def fill(scratch: Floats, place: int, count: int, value: np.float32) -> None:
    """Sets values to one number."""
    scratch[place : place + count] = value


@compiled("void(float32[::1], int64, int64, float32)")
def add_to_run(scratch: Floats, place: int, count: int, value: np.float32) -> None:
    """Adds one number to contiguous values."""
    values = scratch[place : place + count]
    for i in range(values.size):
        values[i] += value


@compiled("boolean(int32[::1], int64, int64)")
def all_finite(table: Offsets, place: int, count: int) -> bool:
    """Whether no value is infinite or NaN; the table is the workspace as int32."""
    return are_finite(table[place : place + count].view(np.float32))


@compiled("void(float32[::1], int64, int64, int64, int64)")
def separate_rows(scratch: Floats, source: int, target: int, pitch: int, count: int) -> None:
    """Copies a panel (count, TILE_ROWS) to TILE_ROWS rows that are a pitch apart."""
    _separate(scratch, scratch, (source, TILE_ROWS, target, pitch, count))


@compiled("void(float32[::1], int64, int64, int64, int64)")
def copy_to_steps(scratch: Floats, source: int, target: int, step: int, count: int) -> None:
    """Copies contiguous values of the workspace to ones that are `step` apart."""
    if step == 1:
        _copy_run(scratch, scratch, (source, target, count))
    else:
        _copy_steps(scratch, scratch, (source, 1, target, step, count))
