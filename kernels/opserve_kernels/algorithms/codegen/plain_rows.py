"""The row kernels in plain loops; opserve_kernels.algorithms.codegen.rows documents each."""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Nine = tuple[int, int, int, int, int, int, int, int, int]


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def step_rows(
    read: Floats, written: Floats, numbers: Nine, source_step: int, target_step: int
) -> None:
    """Plain loops."""
    source, source_planes, source_rows, target, target_planes, target_rows = numbers[:6]
    planes, rows, count = numbers[6:]
    for plane in range(planes):
        for row in range(rows):
            start = source + plane * source_planes + row * source_rows
            place = target + plane * target_planes + row * target_rows
            for i in range(count):
                written[place + i * target_step] = read[start + i * source_step] + np.float32(0)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9))")
def copy_rows(read: Floats, written: Floats, numbers: Nine) -> None:
    """Plain loops."""
    step_rows(read, written, numbers, 1, 1)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9))")
def split_rows(read: Floats, written: Floats, numbers: Nine) -> None:
    """Plain loops."""
    step_rows(read, written, numbers, 2, 1)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64, int64)")
def join_rows(read: Floats, written: Floats, numbers: Nine, step: int, pitch: int) -> None:
    """Plain loops."""
    for phase in range(step):
        place = (numbers[0] + phase * pitch, *numbers[1:3], numbers[3] + phase, *numbers[4:])
        step_rows(read, written, place, 1, step)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 9), int64)")
def add_rows(read: Floats, written: Floats, numbers: Nine, _distance: int) -> None:
    """Plain loops; no memory is fetched ahead."""
    source, source_planes, source_rows, target, target_planes, target_rows = numbers[:6]
    planes, rows, count = numbers[6:]
    for plane in range(planes):
        for row in range(rows):
            start = source + plane * source_planes + row * source_rows
            place = target + plane * target_planes + row * target_rows
            for i in range(count):
                written[place + i] += read[start + i]
