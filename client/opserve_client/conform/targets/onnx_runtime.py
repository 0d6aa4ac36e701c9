"""ONNX Runtime's kernels on the CPU as a target: "onnxruntime".

ONNX Runtime has Col2Im. Its ConvTranspose is the data gradient of a convolution, and its Conv the
data gradient of a transposed one. Needs the packages onnx and onnxruntime.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

ort: Any = import_module("onnxruntime")  # an optional package
Array = NDArray[Any]
_PROFILE = "ascend910b"  # sums in FLOAT and rounds once
_OPSET, _IR_VERSION = 18, 10  # the first opset with Col2Im; a version that most runtimes read


def kernels(
    *,
    operator: str,
    profile: str,
    grad_input: Array | None = None,
    grad_weight: Array | None = None,
    grad_bias: Array | None = None,
    out: Array | None = None,
    **call: Any,  # noqa: ANN401  the operators' arguments
) -> None:
    """Computes im2col_backward, and grad_input alone of convolution_backward, in FLOAT.

    Raises:
        NotImplementedError: ONNX Runtime has no such call.
    """
    result = out if operator == "im2col_backward" else grad_input
    if result is None or grad_weight is not None or grad_bias is not None:
        raise NotImplementedError("no operator for the gradients of weight and bias")
    operands = [call[name] for name in ("grad_output", "weight") if name in call]
    if profile != _PROFILE:
        raise NotImplementedError(f"{profile} sums or rounds in another way")
    if any(array.dtype != np.float32 for array in (*operands, result)):
        raise NotImplementedError("other dtypes than FLOAT")
    if not result.size:
        raise NotImplementedError("results without elements")
    result[...] = _col2im(call) if operator == "im2col_backward" else _grad_input(call, result)


def _col2im(call: Mapping[str, Any]) -> Array:
    columns, padding = call["grad_output"], list(call["padding"])
    inputs = {
        "X": columns.reshape(-1, *columns.shape[-2:]),
        "image_shape": np.array(call["input_size"], np.int64),
        "block_shape": np.array(call["kernel_size"], np.int64),
    }
    steps = {"dilations": list(call["dilation"]), "strides": list(call["stride"])}
    image = _run("Col2Im", inputs, {**steps, "pads": padding + padding})
    return image.reshape(*columns.shape[:-2], *image.shape[1:])


def _grad_input(call: Mapping[str, Any], result: Array) -> Array:
    if call["cube_math_type"] != 0:
        raise NotImplementedError(f"cube_math_type {call['cube_math_type']}")
    stride, padding, dilation = (list(call[name]) for name in ("stride", "padding", "dilation"))
    if len(padding) != len(stride):
        raise NotImplementedError("padding that differs by side")
    inputs = {"X": call["grad_output"], "W": call["weight"]}
    attributes = {
        "group": call["groups"],
        "strides": stride,
        "dilations": dilation,
        "pads": padding + padding,
    }
    if call["transposed"]:
        return _run("Conv", inputs, attributes)
    sizes = zip(
        inputs["X"].shape[2:], inputs["W"].shape[2:], stride, padding, dilation, strict=True
    )
    reached = [
        (places - 1) * step - 2 * side + apart * (taps - 1) + 1
        for places, taps, step, side, apart in sizes
    ]
    extra = [size - far for size, far in zip(result.shape[2:], reached, strict=True)]
    return _run("ConvTranspose", inputs, {**attributes, "output_padding": extra})


def _run(operator: str, inputs: Mapping[str, Array], attributes: Mapping[str, Any]) -> Array:
    """Runs a model with one node."""
    node = helper.make_node(operator, list(inputs), ["Y"], **attributes)
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in inputs.items()
    ]
    result = helper.make_tensor_value_info("Y", values[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], operator, values, [result])
    opset = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # fatal only: errors are raised as exceptions
    session = ort.InferenceSession(model.SerializeToString(), options)
    found: Array = session.run(None, {n: np.ascontiguousarray(a) for n, a in inputs.items()})[0]
    return found
