"""The arrays that ONNX and WebNN ship, on `reference`: what they stored are float32 sums."""

from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.corpora import Case, cases, stored_arrays
from kernels.execution import execute
from kernels.oracles.convolution_backward import geometry_of, magnitude
from kernels.oracles.expectation import ACCUMULATOR_UNIT, LAMBDA, assert_meets, expect
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Sample, TensorSample
from opserve_kernels.tensor import DataType, Format

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_FORMATS = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
_SCALARS = {
    "stride": "stride",
    "padding": "padding",
    "dilation": "dilation",
    "transposed": "transposed",
    "output_padding": "outputPadding",
    "groups": "groups",
    "bias_sizes": "biasSizes",
}


def _sample(case: Case, grad_output: Floats, input_: Floats, weight: Floats) -> Sample:
    """All gradients of a case in float64, of operands in float32."""
    arguments = case["args"]
    given = {"grad_output": grad_output, "input": input_, "weight": weight}
    layout = _FORMATS[input_.ndim]
    tensors: dict[str, TensorSample | None] = {
        name: TensorSample(shape=array.shape, format=layout) for name, array in given.items()
    }
    for name, array in (("grad_input", input_), ("grad_weight", weight)):
        tensors[name] = TensorSample(shape=array.shape, dtype=DataType.DOUBLE, format=layout)
    tensors["grad_bias"] = TensorSample(shape=grad_output.shape[1:2], dtype=DataType.DOUBLE)
    scalars = {name: arguments[theirs] for name, theirs in _SCALARS.items()}
    scalars = {k: tuple(v) if isinstance(v, list) else v for k, v in scalars.items()}
    scalars |= {"bias_sizes": grad_output.shape[1:2]}
    scalars |= {"output_mask": (True, True, True), "cube_math_type": 0}
    return Sample(
        name=case["case_id"],
        operator="convolution_backward",
        tensors=tensors,
        scalars=scalars,
        profile="reference",
    )


def _gradients(sample: Sample, *operands: Floats) -> dict[str, Doubles]:
    buffers = sample.buffers()
    for name, array in zip(("grad_output", "input", "weight"), operands, strict=True):
        sample.inputs[name].view(buffers[name])[...] = array
    execute(sample, buffers)
    return {
        name: np.array(tensor.view(buffers[name]), dtype=np.float64)
        for name, tensor in sample.outputs.items()
    }


def _integers(case: Case, name: str) -> Floats:
    random = np.random.default_rng(len(case["case_id"]) + case["cost"])
    return np.asarray(random.integers(-3, 4, case["args"][name]), np.float32)


def _size(sample: Sample, dy: Floats, x: Floats, w: Floats) -> Doubles:
    """The sums of magnitudes that grad_input would be."""
    operands = dy.astype(np.float64), x.astype(np.float64), w.astype(np.float64)
    return magnitude(*operands, geometry_of(sample.scalars)).grad_input


def _assert_data_gradient(case: Case, stored: dict[str, Floats], output: Floats) -> None:
    """A transposed convolution's output is the data gradient of its input."""
    operands = stored["X"], _integers(case, "input"), stored["W"]
    sample = _sample(case, *operands)

    given = _gradients(sample, *operands)["grad_input"]

    size = _size(sample, *operands)
    terms = prod(stored["W"].shape) // stored["W"].shape[1]
    value = output.astype(np.float64)
    assert_meets(given, expect(value, size, terms=terms, roundings=(DataType.FLOAT,)))


def _assert_adjoint(case: Case, stored: dict[str, Floats], output: Floats) -> None:
    """<Y - b, dy> = <X, dX> = <W, dW> for any dy; the bound is that of the stored output's sums."""
    operands = _integers(case, "gradOutput"), stored["X"], stored["W"]
    sample = _sample(case, *operands)

    given = _gradients(sample, *operands)

    sizes = _size(sample, *operands)
    size = float(np.sum(np.abs(stored["X"].astype(np.float64)) * sizes))
    terms = prod(stored["W"].shape) // stored["W"].shape[0] + 1  # and the bias
    biased = float(np.sum(np.abs(output.astype(np.float64) * operands[0])))
    bound = (LAMBDA * np.sqrt(terms) + 3) * ACCUMULATOR_UNIT * (size + biased)
    product = np.sum(output.astype(np.float64) * operands[0].astype(np.float64))
    for name, operand in (("grad_input", stored["X"]), ("grad_weight", stored["W"])):
        found = np.sum(given[name] * operand.astype(np.float64))
        assert abs(found - product) <= bound, case["case_id"]


@pytest.mark.parametrize(
    ("corpus", "transposes", "forwards"), [("onnx", 13, 33), ("webnn", 15, 48)]
)
def test_stored_convolutions_are_met(corpus: str, transposes: int, forwards: int) -> None:
    counts = {"data gradient": 0, "adjoint": 0}
    for case in cases(corpus):
        if case["op"] != "aclnnConvolutionBackward":
            continue
        stored = stored_arrays(case)
        bias = stored.get("B", np.zeros(1, np.float32))
        output = stored["Y"] - bias.reshape(-1, *[1] * (stored["Y"].ndim - 2))
        if case["role"].startswith("gradInput"):
            _assert_data_gradient(case, stored, output)
            counts["data gradient"] += 1
        else:
            _assert_adjoint(case, stored, output)
            counts["adjoint"] += 1
    assert counts == {"data gradient": transposes, "adjoint": forwards}


def test_onnx_columns_are_met_to_the_bit() -> None:
    columns = [case for case in cases("onnx") if case["op"] == "aclnnIm2colBackward"]
    assert len(columns) == 4
    for case in columns:
        stored, arguments = stored_arrays(case), case["args"]
        names = ("dilation", "padding", "stride")
        scalars = {name: tuple(arguments[name]) for name in names}
        kernel = tuple(arguments["kernelSize"])
        sample = image(case["case_id"], stored["Y"].shape, kernel, profile="reference", **scalars)
        buffers = sample.buffers()
        sample.inputs["grad_output"].view(buffers["grad_output"])[...] = stored["X"]

        execute(sample, buffers)

        np.testing.assert_array_equal(sample.outputs["out"].view(buffers["out"]), stored["Y"])
