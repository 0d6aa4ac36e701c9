"""Laws that hold for every geometry: the gradients are adjoints of the forward operator."""

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import execute
from kernels.oracles import im2col_backward as im2col_oracle
from kernels.oracles.convolution_backward import forward, geometry_of
from kernels.samples.convolution_backward import convolution
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Sample, Values

Doubles = NDArray[np.float64]

laws = settings(max_examples=150, deadline=None, derandomize=True)


def _pairs(low: int, high: int, rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(low, high) for _ in range(rank)))


@st.composite
def convolutions(draw: st.DrawFn) -> Sample:
    """Convolutions of any geometry, small, of small integers: all sums are exact."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    transposed = draw(st.booleans())
    stride = draw(_pairs(1, 3, rank))
    first, second = draw(_pairs(1, 3, 2))
    channels = groups * first if not transposed else groups * second
    weight = (groups * second, first, *draw(_pairs(1, 3, rank)))
    extra = tuple(draw(st.integers(0, step - 1)) for step in stride)
    scalars: dict[str, Any] = {
        "stride": stride,
        "padding": draw(_pairs(0, 2, rank)),
        "dilation": draw(_pairs(1, 2, rank)),
        "groups": groups,
        "transposed": transposed,
        "output_padding": extra if transposed else (0,) * rank,
    }
    input_ = (draw(st.integers(1, 3)), channels, *draw(_pairs(1, 6, rank)))
    sample = convolution("drawn", input_, weight, values=Values.INTEGERS, **scalars)
    grad_output = sample.tensors["grad_output"]
    assert grad_output is not None
    assume(min(grad_output.shape) > 0)
    assume(transposed or _kernel_fits(sample))
    return sample


def _kernel_fits(sample: Sample) -> bool:
    scalars, inputs = sample.scalars, sample.inputs
    sizes = zip(
        inputs["input"].shape[2:],
        inputs["weight"].shape[2:],
        scalars["dilation"],
        scalars["padding"],
        strict=True,
    )
    return all(size + 2 * pad >= step * (taps - 1) + 1 for size, taps, step, pad in sizes)


def _outputs(sample: Sample) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """Inputs and outputs of a call, in float64."""
    buffers = sample.buffers()
    inputs = {k: array.astype(np.float64) for k, array in sample.logical(buffers).items()}
    execute(sample, buffers)
    outputs = {
        name: tensor.view(buffers[name]).astype(np.float64)
        for name, tensor in sample.outputs.items()
    }
    return inputs, outputs


@laws
@given(convolutions())
def test_gradients_are_adjoint_to_the_forward_convolution(sample: Sample) -> None:
    inputs, outputs = _outputs(sample)
    shape = inputs["grad_output"].shape
    output = forward(inputs["input"], inputs["weight"], shape, geometry_of(sample.scalars))

    product = np.sum(inputs["grad_output"] * output)

    assert product == np.sum(outputs["grad_input"] * inputs["input"])
    assert product == np.sum(outputs["grad_weight"] * inputs["weight"])


@laws
@given(convolutions())
def test_grad_bias_is_adjoint_to_adding_a_bias(sample: Sample) -> None:
    inputs, outputs = _outputs(sample)
    bias = np.arange(1.0, 1 + outputs["grad_bias"].size)
    added = bias.reshape(1, -1, *(1,) * (inputs["input"].ndim - 2))

    assert np.sum(inputs["grad_output"] * added) == np.sum(outputs["grad_bias"] * bias)


@laws
@given(
    size=_pairs(1, 9, 2),
    kernel=_pairs(1, 3, 2),
    dilation=_pairs(1, 3, 2),
    padding=_pairs(0, 3, 2),
    stride=_pairs(1, 4, 2),
)
def test_im2col_backward_is_adjoint_to_im2col(**drawn: tuple[int, int]) -> None:
    size, kernel, scalars = drawn.pop("size"), drawn.pop("kernel"), drawn
    for axis in range(2):
        reach = scalars["dilation"][axis] * (kernel[axis] - 1) + 1
        assume(size[axis] + 2 * scalars["padding"][axis] >= reach)
    sample = image("drawn", (2, 2, *size), kernel, values=Values.INTEGERS, **scalars)
    inputs, outputs = _outputs(sample)
    picture = np.random.default_rng(5).integers(-3, 4, (2, 2, *size)).astype(np.float64)

    columns = im2col_oracle.im2col(picture, sample.scalars)

    assert np.sum(columns * inputs["grad_output"]) == np.sum(picture * outputs["out"])
