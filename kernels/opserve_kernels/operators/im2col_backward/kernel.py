"""Phase two of aclnnIm2colBackward: each pixel of the image is the sum of the columns over it.

out[n, c, h, w] = sum over output rows i, then output columns j, both ascending, of
                  grad_output[n, (c * kH + a) * kW + b, i * J + j]
    where a, b are the taps with h = i * stride + a * dilation - padding, and w likewise of j, b
Sums are float32: opserve_kernels.algorithms.fold.loops. `reference` has reference_kernel.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms.fold.layout import FoldStage
from opserve_kernels.algorithms.fold.loops import run_fold
from opserve_kernels.loops import entry, reading
from opserve_kernels.operators.im2col_backward.plan import GRAD_OUTPUT, OUT
from opserve_kernels.stages import stages_between

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_as_fold = reading(FoldStage)


@entry("void(int64[::1], uint8[::1], uint8[::1], uint8[::1], int64, int64)")
def _run_fold(
    stage: Integers, source: Bytes, target: Bytes, workspace: Bytes, first: int, last: int
) -> None:
    """Views the buffers as float32 and as halves here: in Python a view takes a microsecond."""
    run_fold(
        _as_fold(stage),
        workspace.view(np.float32),
        source[: source.size // 4 * 4].view(np.float32),
        source[: source.size // 2 * 2].view(np.uint16),
        target[: target.size // 4 * 4].view(np.float32),
        target[: target.size // 2 * 2].view(np.uint16),
        first,
        last,
    )


def run(
    parameters: Integers,
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Writes the image's rows of the work units first_unit .. last_unit-1.

    Args:
        parameters: The plan's parameters.
        tensors: The buffers of grad_output and out.
        workspace: A buffer of the plan's size.
        first_unit: First work unit.
        last_unit: One past the last work unit.
    """
    # All stages of a fold have one kind: shares differ only in their records.
    source, target = tensors[GRAD_OUTPUT], tensors[OUT]
    for _, stage, first, last in stages_between(parameters, first_unit, last_unit):
        _run_fold(stage, source, target, workspace, first, last)
