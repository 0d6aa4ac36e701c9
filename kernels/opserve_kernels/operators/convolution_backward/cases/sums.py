"""The sums of a call of convolution_backward."""

from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.cube_math import case_computation
from opserve_kernels.cases.sum import Products, Sum, sum_of
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES
from opserve_kernels.tensor import DataType

OPERANDS = ("grad_output", "input", "weight")
"""Of the products."""
_IMAGE_AXES = ("n", "c", "d", "h", "w")
_WEIGHT_AXES = ("k", "c", "kd", "kh", "kw")
_SPATIAL = 3
_16_BITS = (DataType.FLOAT16, DataType.BF16)


def sums(case: Case) -> tuple[Sum, ...]:
    """The sums of the gradients that output_mask selects."""
    dy, x, w = (case.tensors[name] for name in OPERANDS)
    groups = cast("int", case.arguments["groups"])
    transposed, taps = bool(case.arguments["transposed"]), prod(w.shape[2:])
    places = prod((x if transposed else dy).shape[2:]) * x.shape[0]
    positions = prod(dy.shape[2:]) * x.shape[0]
    channels = w.shape[1] if transposed else w.shape[0] // groups
    products, spatial = places * prod(w.shape), len(x.shape) - 2
    image_axes = (*_IMAGE_AXES[:2], *_IMAGE_AXES[2 + _SPATIAL - spatial :])
    weight_axes = (*_WEIGHT_AXES[:2], *_WEIGHT_AXES[2 + _SPATIAL - spatial :])
    found = {
        "grad_input": (image_axes, channels * taps, products),
        "grad_weight": (weight_axes, places, products),
        "grad_bias": (("c",), positions, prod(dy.shape)),
    }
    return tuple(
        sum_of(
            case,
            name,
            Products(
                axes=found[name][0],
                terms=found[name][1],
                multiply_adds=found[name][2],
                passed=_passed(case, name, groups),
            ),
            gradient="grad_output",
        )
        for name in case.written
    )


def _passed(case: Case, name: str, groups: int) -> DataType:
    """The dtype that a sum is rounded to before its own; FLOAT means none."""
    computed = case_computation(case, OPERANDS).dtype
    if name == "grad_input":
        return computed
    if name == "grad_bias":
        return case.tensors["grad_output"].dtype
    narrow = PROFILE_RULES[case.profile].narrows_grouped_weight and computed in _16_BITS
    is_float = case.tensors[name].dtype == DataType.FLOAT
    return DataType.FLOAT16 if narrow and groups > 1 and is_float else DataType.FLOAT
