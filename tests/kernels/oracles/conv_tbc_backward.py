"""Gradients of a convolution over (T, B, C) in float64, scattered position by position.

The convolution adds input[o + k - pad, b] @ weight[k] to output[o, b] for each position o and tap
k whose time o + k - pad is inside the input.
"""

from collections.abc import Collection, Mapping

import numpy as np

from kernels.oracles.cube_math import SATURATING, as_multiplied, computed_dtype
from kernels.oracles.expectation import REFERENCE_UNIT, Doubles, Expectation, expect
from kernels.oracles.rounding import saturate
from kernels.oracles.transforms import Transformed
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType

OPERANDS = ("self", "input", "weight")
_EXACT = "reference"


def gradients(grad: Doubles, image: Doubles, weight: Doubles, pad: int) -> dict[str, Doubles]:
    """The gradients of input and weight, and of the bias by the same `grad`."""
    grad_input, grad_weight = np.zeros(image.shape), np.zeros(weight.shape)
    for position in range(grad.shape[0]):
        for tap in range(weight.shape[0]):
            time = position + tap - pad
            if 0 <= time < image.shape[0]:
                grad_input[time] += grad[position] @ weight[tap].T
                grad_weight[tap] += image[time].T @ grad[position]
    return {
        "grad_input": grad_input,
        "grad_weight": grad_weight,
        "grad_bias": grad.sum(axis=(0, 1)),
    }


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: Collection[str] = ()
) -> dict[str, Expectation]:
    """Expected outputs of a sample's call.

    Args:
        sample: The call.
        buffers: Its memory.
        transformed: The outputs that Winograd's algorithm computes.
    """
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    grad, image, weight = (as_multiplied(given[name], name, sample, OPERANDS) for name in OPERANDS)
    pad = sample.scalars["pad"]
    with np.errstate(invalid="ignore"):
        sums = gradients(grad, image, weight, pad)
        sizes = gradients(np.abs(grad), np.abs(image), np.abs(weight), pad)
        # Not rounded as the products' operands are.
        sums["grad_bias"] = given["self"].sum(axis=(0, 1))
        sizes["grad_bias"] = np.abs(given["self"]).sum(axis=(0, 1))
    places = given["self"].shape[0] * given["self"].shape[1]
    taps, _, outputs = weight.shape
    terms = {"grad_input": taps * outputs, "grad_weight": places, "grad_bias": places}
    added = {name: _transforms(name, (grad, image, weight), pad) for name in transformed}
    return {
        name: _expectation(
            sums[name],
            sizes[name],
            terms=terms[name],
            transforms=added.get(name),
            name=name,
            sample=sample,
        )
        for name in sums
    }


def _transforms(name: str, operands: tuple[Doubles, Doubles, Doubles], pad: int) -> Doubles:
    """The error that Winograd's algorithm may add to an output."""
    output, image = (array.transpose(1, 2, 0) for array in operands[:2])
    weight = operands[2].transpose(2, 1, 0)
    kind = Transformed(kernel=weight.shape[2:], padding=(pad,), dilation=(1,), groups=1)
    if name == "grad_weight":
        return kind.weight_error(image, output).transpose(2, 1, 0)
    return kind.image_error(output, weight, image.shape[2:]).transpose(2, 0, 1)


def _expectation(
    value: Doubles,
    size: Doubles,
    *,
    terms: int,
    transforms: Doubles | None,
    name: str,
    sample: Sample,
) -> Expectation:
    dtype = sample.outputs[name].dtype
    if sample.profile == _EXACT:
        return expect(value, size, terms=terms, roundings=(dtype,), unit=REFERENCE_UNIT)
    passed = {
        "grad_input": computed_dtype(sample, OPERANDS),
        "grad_weight": DataType.FLOAT,
        "grad_bias": sample.inputs["self"].dtype,
    }
    roundings = (passed[name], dtype)
    found = expect(value, size, terms=terms, roundings=roundings, transforms=transforms)
    if sample.profile in SATURATING and DataType.FLOAT16 in roundings:
        return Expectation(value=saturate(found.value), tolerance=found.tolerance)
    return found
