"""The smaller call whose output is a projection of a gradient (see cases/projection.py)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.projection import Projection, project, project_weight

CHANNEL_AXES = {"grad_input": 1, "grad_weight": 0}


def projected_call(
    case: Case, output: str, projection: Projection, operands: Mapping[str, Array]
) -> tuple[Case, Mapping[str, Array]]:
    """The call, with its operands, whose output is a projection of the case's."""
    signs, groups = projection.signs, projection.groups
    transposed, few = bool(case.arguments["transposed"]), dict(operands)
    channels, weight, image = len(signs) * groups, operands["weight"], operands["input"]
    if output == "grad_weight":
        summed = "input" if transposed else "grad_output"
        few[summed] = project(operands[summed], signs, axis=1, groups=groups)
        few["weight"] = np.zeros((channels, *weight.shape[1:]))
    else:
        few["input"] = np.zeros((image.shape[0], channels, *image.shape[2:]))
        few["weight"] = (
            project(weight, signs, axis=0, groups=groups)
            if transposed
            else project_weight(weight, signs, groups=groups)
        )
    shapes = {name: operand.shape for name, operand in few.items()}
    shapes[output] = shapes["weight" if output == "grad_weight" else "input"]
    tensors = {name: replace(case.tensors[name], shape=shape) for name, shape in shapes.items()}
    arguments = {**case.arguments, "bias_sizes": (shapes["grad_output"][1],)}
    return replace(case, tensors=tensors, arguments=arguments), few
