"""Laws that hold for every geometry: the gradients are adjoints of the forward operator.

<dy, F(x, w)> = <x, dX(dy, w)> = <w, dW(x, dy)>, with F from a naive oracle. On `reference` the
numbers are any, and the products differ by no more than float64 sums in another order may; on
other profiles they are small integers, whose sums are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import execute
from kernels.oracles import im2col_backward as im2col_oracle
from kernels.oracles.convolution_backward import Geometry, forward, geometry_of
from kernels.oracles.expectation import DOUBLE_UNIT
from kernels.samples import conv2d_backprop_filter, conv2d_backprop_input
from kernels.samples.convolution_backward import convolution
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Sample, Values
from opserve_kernels.formats import from_5hd, from_fractal_z, to_5hd, to_fractal_z
from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

laws = settings(max_examples=50, deadline=None, derandomize=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The profile and dtype of a computation, and its input values."""

    profile: str
    dtype: DataType
    values: Values


_COMPUTATIONS = (
    Computation(profile="ascend910b", dtype=DataType.FLOAT, values=Values.INTEGERS),
    Computation(profile="reference", dtype=DataType.DOUBLE, values=Values.NORMAL),
)
every_computation = pytest.mark.parametrize(
    "computation", _COMPUTATIONS, ids=lambda computation: computation.profile
)


def _assert_one_product(products: Sequence[np.float64], *, magnitude: float, terms: int) -> None:
    """All are the same sum of products, each within the bound that holds in any order.

    Args:
        products: The sums.
        magnitude: The sum of the products' magnitudes; 0 where sums are exact.
        terms: No fewer than the products in the sum.
    """
    for product in products:
        assert abs(product - products[0]) <= 2 * terms * DOUBLE_UNIT * magnitude


def _pairs(low: int, high: int, rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(low, high) for _ in range(rank)))


@st.composite
def convolutions(draw: st.DrawFn, computation: Computation) -> Sample:
    """Convolutions of any geometry, small."""
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
    dtypes, values, profile = (computation.dtype,) * 3, computation.values, computation.profile
    sample = convolution(
        "drawn", input_, weight, dtypes=dtypes, values=values, profile=profile, **scalars
    )
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


@every_computation
@laws
@given(data=st.data())
def test_gradients_are_adjoint_to_the_forward_convolution(
    computation: Computation, data: st.DataObject
) -> None:
    sample = data.draw(convolutions(computation))
    inputs, outputs = _outputs(sample)
    grad_output, input_, weight = (inputs[n] for n in ("grad_output", "input", "weight"))
    geometry = geometry_of(sample.scalars)
    output = forward(input_, weight, grad_output.shape, geometry)
    sizes = forward(np.abs(input_), np.abs(weight), grad_output.shape, geometry)

    _assert_one_product(
        [
            np.sum(grad_output * output),
            np.sum(outputs["grad_input"] * input_),
            np.sum(outputs["grad_weight"] * weight),
        ],
        magnitude=0
        if computation.values is Values.INTEGERS
        else float(np.sum(np.abs(grad_output) * sizes)),
        terms=grad_output.size * weight.size,
    )


@every_computation
@laws
@given(data=st.data())
def test_grad_bias_is_adjoint_to_adding_a_bias(
    computation: Computation, data: st.DataObject
) -> None:
    inputs, outputs = _outputs(data.draw(convolutions(computation)))
    grad_output, grad_bias = inputs["grad_output"], outputs["grad_bias"]
    bias = np.arange(1.0, 1 + grad_bias.size)
    added = bias.reshape(1, -1, *(1,) * (grad_output.ndim - 2))

    _assert_one_product(
        [np.sum(grad_output * added), np.sum(grad_bias * bias)],
        magnitude=0
        if computation.values is Values.INTEGERS
        else float(np.sum(np.abs(grad_output) * added)),
        terms=grad_output.size,
    )


@every_computation
@laws
@given(
    size=_pairs(1, 9, 2),
    kernel=_pairs(1, 3, 2),
    dilation=_pairs(1, 3, 2),
    padding=_pairs(0, 3, 2),
    stride=_pairs(1, 4, 2),
)
def test_im2col_backward_is_adjoint_to_im2col(
    computation: Computation, **drawn: tuple[int, int]
) -> None:
    size, kernel, scalars = drawn.pop("size"), drawn.pop("kernel"), drawn
    for axis in range(2):
        reach = scalars["dilation"][axis] * (kernel[axis] - 1) + 1
        assume(size[axis] + 2 * scalars["padding"][axis] >= reach)
    places: dict[str, Any] = {
        "dtypes": (computation.dtype,) * 2,
        "profile": computation.profile,
        **scalars,
    }
    sample = image("drawn", (2, 2, *size), kernel, values=computation.values, **places)
    inputs, outputs = _outputs(sample)
    picture = np.random.default_rng(5).integers(-3, 4, (2, 2, *size)).astype(np.float64)

    products = im2col_oracle.im2col(picture, sample.scalars) * inputs["grad_output"]

    _assert_one_product(
        [np.sum(products), np.sum(picture * outputs["out"])],
        magnitude=0 if computation.values is Values.INTEGERS else float(np.sum(np.abs(products))),
        terms=products.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A convolution of the TBE calls: padding up, down, left and right, its own for each side."""

    input_sizes: tuple[int, int, int, int]
    filter_sizes: tuple[int, int, int, int]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """N, Cout, Ho, Wo."""
        found: list[int] = []
        for axis in range(2):
            reach = self.dilations[2 + axis] * (self.filter_sizes[2 + axis] - 1) + 1
            free = self.input_sizes[2 + axis] + sum(self.padding[2 * axis : 2 * axis + 2]) - reach
            found.append(free // self.strides[axis] + 1)
        return (self.input_sizes[0], self.filter_sizes[0], *found)

    @property
    def scalars(self) -> dict[str, Any]:
        """The keys of para_dict that both calls have, results in float64, and the device."""
        return {
            "strides": self.strides,
            "padding": self.padding,
            "dilations": self.dilations,
            "res_dtype": "float64",
            "groups": self.groups,
            "dtype": DataType.DOUBLE,
            "profile": "reference",
        }


@st.composite
def blocked(draw: st.DrawFn) -> Blocked:
    """Groups of any width, so that superblocks are whole, part full, and several."""
    groups = draw(st.sampled_from([1, 2, 3, 5, 17]))
    inputs, outputs = draw(st.tuples(*(st.sampled_from([1, 2, 3, 8, 16, 20]),) * 2))
    batch, height, width, tap_h, tap_w = draw(
        st.tuples(*(st.integers(1, most) for most in (2, 5, 5, 3, 3)))
    )
    drawn = Blocked(
        input_sizes=(batch, groups * inputs, height, width),
        filter_sizes=(groups * outputs, inputs, tap_h, tap_w),
        strides=draw(_pairs(1, 3, 2)),
        padding=draw(_pairs(0, 2, 4)),
        dilations=(1, 1, *draw(_pairs(1, 2, 2))),
        groups=groups,
    )
    assume(min(drawn.output_sizes) > 0)
    return drawn


def _result(sample: Sample, **given: Doubles) -> Doubles:
    """Outputs of a TBE call for these operands."""
    buffers = sample.buffers()
    for name, array in given.items():
        sample.inputs[name].view(buffers[name])[...] = array
    execute(sample, buffers)
    return np.array(sample.outputs["res_tensor"].view(buffers["res_tensor"]), dtype=np.float64)


@settings(laws, max_examples=30)
@given(call=blocked())
def test_tbe_gradients_are_adjoint_to_the_forward_convolution(call: Blocked) -> None:
    random = np.random.default_rng(sum(call.input_sizes) + sum(call.filter_sizes))
    shapes = (call.output_sizes, call.input_sizes, call.filter_sizes)
    dy, x, w = (random.standard_normal(shape) for shape in shapes)
    geometry = Geometry(
        stride=call.strides,
        padding=call.padding[::2],
        dilation=call.dilations[2:],
        transposed=False,
        groups=call.groups,
    )
    to_input = conv2d_backprop_input.gradient(
        "drawn", call.input_sizes, call.filter_sizes, **call.scalars
    )
    to_weight = conv2d_backprop_filter.gradient(
        "drawn", call.input_sizes, call.filter_sizes, **call.scalars
    )

    dx = _result(to_input, filters=to_fractal_z(w, call.groups), out_backprop=to_5hd(dy))
    dw = _result(to_weight, input_x=to_5hd(x), out_backprop=to_5hd(dy))

    sizes = forward(np.abs(x), np.abs(w), dy.shape, geometry)
    _assert_one_product(
        [
            np.sum(dy * forward(x, w, dy.shape, geometry)),
            np.sum(from_5hd(dx, call.input_sizes[1]) * x),
            np.sum(from_fractal_z(dw, call.filter_sizes, call.groups) * w),
        ],
        magnitude=float(np.sum(np.abs(dy) * sizes)),
        terms=dy.size * w.size,
    )
