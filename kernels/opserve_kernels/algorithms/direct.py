"""Runs the stages of opserve_kernels.algorithms.direct_plan."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.depthwise import run_depthwise
from opserve_kernels.algorithms.direct_plan import (
    ADD_OUTER,
    CORRELATE,
    DEPTHWISE,
    MULTIPLY_DOTS,
    TRANSFORM,
    TRANSFORM_WEIGHT,
)
from opserve_kernels.algorithms.dots import run_dots
from opserve_kernels.algorithms.outer import run_outer
from opserve_kernels.algorithms.packed import run_packed
from opserve_kernels.algorithms.winograd import run_winograd
from opserve_kernels.algorithms.winograd_gradient import run_winograd_weight
from opserve_kernels.loops import compiled
from opserve_kernels.strided import as_floats, as_halves

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_TENSORS = 3  # places at the start of a stage: source, weight, result

_IN_PYTHON: dict[int, Callable[..., None]] = {
    TRANSFORM: run_winograd,
    TRANSFORM_WEIGHT: run_winograd_weight,
}
DIRECT_KINDS = frozenset({CORRELATE, MULTIPLY_DOTS, ADD_OUTER, DEPTHWISE, *_IN_PYTHON})


@compiled("void(int64, int64[::1], float32[::1], uint8[::1], uint8[::1], uint8[::1], int64, int64)")
def _run(  # noqa: PLR0913, PLR0917  # arrays and integers
    kind: int,
    stage: Integers,
    scratch: Floats,
    source: Bytes,
    weight: Bytes,
    result: Bytes,
    first: int,
    last: int,
) -> None:
    """One call into compiled code for a stage: small calls take no longer than this."""
    table = scratch.view(np.int32)
    x, w, y = as_floats(source), as_floats(weight), as_floats(result)
    x_half, w_half, y_half = as_halves(source), as_halves(weight), as_halves(result)
    if kind == CORRELATE:
        run_packed(stage, scratch, table, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == MULTIPLY_DOTS:
        run_dots(stage, scratch, table, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == ADD_OUTER:
        run_outer(stage, scratch, table, x, x_half, w, w_half, y, y_half, first, last)
    elif kind == DEPTHWISE:
        run_depthwise(stage, scratch, table, x, x_half, w, w_half, y, y_half, first, last)


def run_direct(  # a stage and its memory
    kind: int,
    stage: Integers,
    tensors: Sequence[Bytes],
    scratch: Floats,
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1 of a stage; scratch is the workspace."""
    buffers = [tensors[int(place)] for place in stage[:_TENSORS]]
    if kind in _IN_PYTHON:
        views = chain(*((as_floats(buffer), as_halves(buffer)) for buffer in buffers))
        _IN_PYTHON[kind](stage[_TENSORS:], scratch, scratch.view(np.int32), *views, first, last)
    else:
        source, weight, result = buffers
        _run(kind, stage[_TENSORS:], scratch, source, weight, result, first, last)
