"""Runs the stages of opserve_kernels.algorithms.direct_plan."""

from collections.abc import Callable, Sequence
from typing import Any

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
from opserve_kernels.strided import as_floats, as_halves

_TENSORS = 3  # places at the start of a stage: source, weight, result

_LOOPS: dict[int, Callable[..., None]] = {
    CORRELATE: run_packed,
    MULTIPLY_DOTS: run_dots,
    ADD_OUTER: run_outer,
    DEPTHWISE: run_depthwise,
    TRANSFORM: run_winograd,
    TRANSFORM_WEIGHT: run_winograd_weight,
}
DIRECT_KINDS = frozenset(_LOOPS)


def run_direct(  # a stage and its memory
    kind: int,
    stage: NDArray[np.int64],
    tensors: Sequence[NDArray[np.uint8]],
    scratch: NDArray[np.float32],
    first: int,
    last: int,
) -> None:
    """Runs units first .. last-1 of a stage; scratch is the workspace."""
    buffers: list[Any] = []
    for place in stage[:_TENSORS]:
        buffers += [as_floats(tensors[int(place)]), as_halves(tensors[int(place)])]
    _LOOPS[kind](stage[_TENSORS:], scratch, scratch.view(np.int32), *buffers, first, last)
