"""Laws of the forward convolutions: adjoint to their gradients, and alike where they overlap."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute
from kernels.oracles.convolution_backward import forward, geometry_of
from kernels.oracles.expectation import DOUBLE_UNIT, Doubles
from kernels.samples.layers import layer
from kernels.samples.sample import Sample
from kernels.test_adjoint import Computation, convolutions, every_computation
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

laws = settings(max_examples=50, deadline=None, derandomize=True)
_DIRECT = PlanOptions()


def _layer(gradients: Sample) -> Sample:
    """The forward call whose gradients a call computes, without a bias."""
    input_, weight = gradients.inputs["input"], gradients.inputs["weight"]
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    scalars: dict[str, Any] = {name: gradients.scalars[name] for name in names}
    return layer(
        gradients.name,
        input_.shape,
        weight.shape,
        bias=False,
        values=input_.values,
        dtypes=(input_.dtype,) * 4,
        profile=gradients.profile,
        **scalars,
    )


def _run(sample: Sample, **values: Doubles) -> dict[str, Doubles]:
    """The outputs of a call on these inputs, by direct sums."""
    buffers = sample.buffers()
    for name, array in values.items():
        sample.inputs[name].view(buffers[name])[...] = array
    execute(sample, buffers, options=_DIRECT)
    return {
        name: tensor.view(buffers[name]).astype(np.float64)
        for name, tensor in sample.outputs.items()
    }


def _fits(sample: Sample) -> bool:
    """Whether the products' rules on the padding of transposed 3-D calls allow it."""
    scalars = sample.scalars
    if not scalars["transposed"] or len(scalars["stride"]) < 3 or sample.profile == "reference":
        return True
    taps = sample.inputs["weight"].shape[2:]
    spans = zip(taps, scalars["dilation"], scalars["padding"], strict=True)
    return all(pad <= (kernel - 1) * step for kernel, step, pad in spans)


@every_computation
@laws
@given(data=st.data())
def test_a_convolution_is_adjoint_to_its_gradients(
    computation: Computation, data: st.DataObject
) -> None:
    sample = data.draw(convolutions(computation).filter(_fits))
    drawn = {name: array.astype(np.float64) for name, array in sample.arrays().items()}
    grad_output, image, weight = (drawn[name] for name in ("grad_output", "input", "weight"))

    output = _run(_layer(sample), input=image, weight=weight)["output"]
    gradients = _run(sample, **drawn)

    geometry = geometry_of(sample.scalars)
    sizes = forward(np.abs(image), np.abs(weight), grad_output.shape, geometry)
    is_exact = computation.dtype == DataType.FLOAT  # small integers
    magnitude = 0.0 if is_exact else float(np.sum(np.abs(grad_output) * sizes))
    bound = 2 * grad_output.size * weight.size * DOUBLE_UNIT * magnitude
    product = np.sum(grad_output * output)
    assert abs(np.sum(gradients["grad_input"] * image) - product) <= bound
    assert abs(np.sum(gradients["grad_weight"] * weight) - product) <= bound


@every_computation
@laws
@given(data=st.data())
def test_a_transposed_convolution_is_the_input_gradient_of_the_plain_one(
    computation: Computation, data: st.DataObject
) -> None:
    sample = data.draw(convolutions(computation).filter(lambda s: not s.scalars["transposed"]))
    grad_output = sample.inputs["grad_output"].shape
    scalars = sample.scalars
    given_: dict[str, Any] = {
        name: scalars[name] for name in ("stride", "padding", "dilation", "groups")
    }
    weight = sample.inputs["weight"]
    exact = layer("", grad_output, weight.shape, transposed=True, **given_).outputs["output"].shape
    image = sample.inputs["input"].shape
    extra = tuple(n - m for n, m in zip(image[2:], exact[2:], strict=True))
    plain = _layer(sample)
    dtypes = (weight.dtype,) * 4
    transposed = layer(
        "", grad_output, weight.shape, bias=False, transposed=True, output_padding=extra,
        dtypes=dtypes, profile=sample.profile, **given_,
    )  # fmt: skip
    if not _fits(transposed):
        transposed = replace(transposed, profile="reference")
        sample = replace(sample, profile="reference")
    arrays = {name: array.astype(np.float64) for name, array in sample.arrays().items()}

    output = _run(transposed, input=arrays["grad_output"], weight=arrays["weight"])["output"]

    assert plain.outputs["output"].shape == grad_output
    np.testing.assert_array_equal(output, _run(sample, **arrays)["grad_input"])


@every_computation
@laws
@given(data=st.data())
def test_a_bias_adds_its_value_to_each_position(
    computation: Computation, data: st.DataObject
) -> None:
    plain = _layer(data.draw(convolutions(computation).filter(_fits)))
    output = plain.outputs["output"]
    channels = output.shape[1]
    bias = np.arange(1.0, 1 + channels)
    tensor = replace(plain.inputs["input"], shape=(channels,))
    arrays = {name: array.astype(np.float64) for name, array in plain.arrays().items()}

    without = _run(plain, **arrays)["output"]
    biased = _run(plain.but("biased", bias=tensor), **arrays, bias=bias)["output"]

    added = without + bias.reshape(1, -1, *(1,) * (without.ndim - 2))
    # Sums of integers are exact; others begin with the bias on `reference`.
    bound = 0.0 if computation.dtype == DataType.FLOAT else 1e-12
    np.testing.assert_allclose(biased, added, rtol=bound, atol=bound)
