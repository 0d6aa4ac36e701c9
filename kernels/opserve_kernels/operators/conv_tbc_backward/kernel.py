"""Phase two of aclnnConvTbcBackward; it reads no element of the bias."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels import gradient_loops
from opserve_kernels.operators.conv_tbc_backward.contract import TENSORS
from opserve_kernels.operators.conv_tbc_backward.plan import READ_OR_WRITTEN

Bytes = NDArray[np.uint8]


def run(
    parameters: NDArray[np.int64],
    tensors: Sequence[Bytes],
    workspace: Bytes,
    first_unit: int,
    last_unit: int,
) -> None:
    """Runs the work units of the common loops, whose places are those of all tensors but one."""
    named = dict(zip(TENSORS, tensors, strict=True))
    buffers = [named[name] for name in READ_OR_WRITTEN]
    gradient_loops.run(parameters, buffers, workspace, first_unit, last_unit)
