"""conv2d_backprop_input whose first element is wrong in every second call."""

from typing import Any

import numpy as np

from opserve_kernels.operators.conv2d_backprop_input import kernel
from opserve_kernels.operators.conv2d_backprop_input.operator import OPERATOR

RES_TENSOR = OPERATOR.tensor_fields.index("res_tensor")
BEGUN: list[int] = []


def run(parameters: Any, tensors: Any, workspace: Any, first_unit: int, last_unit: int) -> None:
    if first_unit == 0:
        BEGUN.append(len(BEGUN))
    kernel.run(parameters, tensors, workspace, first_unit, last_unit)
    if len(BEGUN) % 2 == 0:
        tensors[RES_TENSOR].view(np.float16)[0] = 12345
