"""The gradients of a convolution in float32, stage by stage.

Products are loops of opserve_kernels.algorithms; what is copied and summed is here:
    sums        = sum of an image over batch and positions

Plans of `reference` have stages of opserve_kernels.exact_loops instead.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.columns_products import RUN_COLUMNS
from opserve_kernels.algorithms.direct import DIRECT_KINDS, run_direct
from opserve_kernels.algorithms.run_sums import add_run
from opserve_kernels.copy_stages import FILL, KEEP_DIAGONAL, LOAD, STORE
from opserve_kernels.exact_loops import run_exact_stage
from opserve_kernels.exact_plan import FIRST_EXACT_KIND
from opserve_kernels.gradient_plan import SUM_CHANNELS, WHERE_THEY_LIE
from opserve_kernels.loops import compiled
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.stages import stages_between
from opserve_kernels.strided import as_floats, as_halves, load, position_of, store
from opserve_kernels.sums import LANES, add_lanes
from opserve_kernels.views import VIEW_RANK

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Integers = NDArray[np.int64]

_LAST_SIZE = VIEW_RANK + 1  # of a view


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs the work units first_unit .. last_unit-1; what lives between is in the workspace.

    Args:
        parameters: Those of the plan.
        tensors: The buffers of the schema's tensors, in order; empty where there is none.
        workspace: As many bytes as the plan says.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    scratch = workspace.view(np.float32)
    for kind, stage, first, last in stages_between(parameters, first_unit, last_unit):
        if kind >= FIRST_EXACT_KIND:
            run_exact_stage(kind, stage, tensors, workspace, first, last)
        elif kind in DIRECT_KINDS:
            run_direct(kind, stage, tensors, scratch, first, last)
        elif kind in _WITHIN:
            _WITHIN[kind](stage, scratch, first, last)
        else:
            _COPIES[kind](stage, tensors[int(stage[0])], scratch, first, last)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _fill(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    start, count, chunk = stage[0], stage[1], stage[2]
    scratch[start + first * chunk : start + min(last * chunk, count)] = np.float32(0)


@compiled("void(int64[::1], uint8[::1], float32[::1], int64, int64)")
def _load(stage: Integers, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Copies an operand into the workspace, rounded as the cube does; -0 becomes 0."""
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    target = scratch[start + begin : start + end]
    floats, halves = as_floats(buffer), as_halves(buffer)
    load(floats, halves, stage[5:], number_format, begin, target)


@compiled("void(int64[::1], uint8[::1], float32[::1], int64, int64)")
def _store(stage: Integers, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Copies a result out of the workspace, rounded as the cube does and then to its dtype."""
    start, count, chunk, number_format = stage[1], stage[2], stage[3], stage[4]
    begin, end = first * chunk, min(last * chunk, count)
    source = scratch[start + begin : start + end]
    floats, halves = as_floats(buffer), as_halves(buffer)
    store(source, number_format, stage[5:], begin, floats, halves)


@compiled("void(int64[::1], float32[::1], uint16[::1], float32[::1], int64, int64)")
def _sum_block(
    stage: Integers, floats: Floats, halves: Halves, scratch: Floats, first: int, count: int
) -> None:
    """Adds elements to the lanes: runs of float32 from where they lie, others once loaded."""
    view, block, lanes = stage[8:], stage[2], stage[4]
    width = view[_LAST_SIZE]
    if block != WHERE_THEY_LIE:
        load(floats, halves, view, FLOAT, first, scratch[block : block + count])
        add_run(scratch, scratch, (block, count, lanes))
        return
    done = 0
    while done < count:
        run = min(width - (first + done) % width, count - done)
        add_run(floats, scratch, (position_of(view, first + done), run, lanes))
        done += run


@compiled("void(int64[::1], uint8[::1], float32[::1], int64, int64)")
def _sum_channels(stage: Integers, buffer: Bytes, scratch: Floats, first: int, last: int) -> None:
    """Adds a chunk of a channel's pixels to its total, block by block."""
    floats, halves = as_floats(buffer), as_halves(buffer)
    totals, lanes = scratch[stage[1] :], scratch[stage[4] :][:LANES]
    block_size, pixels, chunks, chunk = stage[3], stage[5], stage[6], stage[7]
    for unit in range(first, last):
        channel = unit // chunks
        begin = unit % chunks * chunk
        end = min(begin + chunk, pixels)
        for pixel in range(begin, end, block_size):
            lanes[:] = np.float32(0)
            element = channel * pixels + pixel
            _sum_block(stage, floats, halves, scratch, element, min(block_size, end - pixel))
            totals[channel] += add_lanes(lanes)


@compiled("void(int64[::1], float32[::1], int64, int64)")
def _keep_diagonal(stage: Integers, scratch: Floats, first: int, last: int) -> None:
    """Zeros where an output and an input channel of a superblock belong to different groups."""
    groups, extend, k_group, c_group = stage[1], stage[2], stage[3], stage[4]
    k_size, c_size, taps = stage[5], stage[6], stage[7]
    for unit in range(first, last):
        member = unit % k_size // k_group
        exists = member < extend and unit // k_size * extend + member < groups
        row = scratch[stage[0] + unit * c_size * taps :][: c_size * taps]
        if exists:
            row[: member * c_group * taps] = np.float32(0)
            row[(member + 1) * c_group * taps :] = np.float32(0)
        else:
            row[:] = np.float32(0)


# With a buffer of the call, whose place is the stage's first parameter, and without.
_COPIES: dict[int, Callable[[Integers, Bytes, Floats, int, int], None]] = {
    LOAD: _load,
    STORE: _store,
    SUM_CHANNELS: _sum_channels,
}
_WITHIN: dict[int, Callable[[Integers, Floats, int, int], None]] = {
    FILL: _fill,
    KEEP_DIAGONAL: _keep_diagonal,
    **RUN_COLUMNS,
}
