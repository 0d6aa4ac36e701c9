"""ONNX Runtime's kernels on the CPU as a target: "onnxruntime".

ONNX Runtime has Col2Im, Conv and ConvTranspose. Its ConvTranspose is also the data gradient of a
convolution, and its Conv that of a transposed one. Needs the packages onnx and onnxruntime.
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
_UNCHANGED = (0, 4)  # values of cube_math_type that leave operands in FLOAT as they are
_CHANNELS_LAST = "NDHWC"
_OPSET, _IR_VERSION = 18, 10  # the first opset with Col2Im; a version that most runtimes read


def kernels(  # noqa: PLR0913  each output has a name
    *,
    operator: str,
    profile: str,
    formats: Mapping[str, str],
    grad_input: Array | None = None,
    grad_weight: Array | None = None,
    grad_bias: Array | None = None,
    output: Array | None = None,
    out: Array | None = None,
    **call: Any,  # noqa: ANN401  the operators' arguments
) -> None:
    """Computes aclnn operators in FLOAT, of convolution_backward grad_input alone.

    Raises:
        NotImplementedError: ONNX Runtime has no such call.
    """
    result = next((one for one in (grad_input, output, out) if one is not None), None)
    has_others = grad_weight is not None or grad_bias is not None
    if operator not in COMPUTED or result is None or has_others:
        raise NotImplementedError("ONNX Runtime has no such operator")
    operands: list[Array] = [one for one in call.values() if isinstance(one, np.ndarray)]
    if profile != _PROFILE:
        raise NotImplementedError(f"{profile} sums or rounds in another way")
    if any(array.dtype != np.float32 for array in (*operands, result)):
        raise NotImplementedError("other dtypes than FLOAT")
    if not result.size:
        raise NotImplementedError("results without elements")
    if call.get("cube_math_type", 0) not in _UNCHANGED:
        raise NotImplementedError(f"cube_math_type {call['cube_math_type']}")
    result[...] = COMPUTED[operator]({**call, "formats": formats}, result)


def _col2im(call: Mapping[str, Any], _: Array) -> Array:
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
    inputs = {"X": call["grad_output"], "W": call["weight"]}
    attributes = {**_steps(call), "group": call["groups"]}
    if call["transposed"]:
        return _conv(inputs, attributes)
    axes = len(call["stride"])
    reached = [
        (places - 1) * step + (taps - 1) * apart + 1 - before - after
        for places, taps, step, apart, before, after in zip(
            *(inputs["X"].shape[2:], inputs["W"].shape[2:]),
            *(attributes["strides"], attributes["dilations"]),
            *(attributes["pads"][:axes], attributes["pads"][axes:]),
            strict=True,
        )
    ]
    extra = [size - far for size, far in zip(result.shape[2:], reached, strict=True)]
    return _run("ConvTranspose", inputs, {**attributes, "output_padding": extra})


def _convolution(call: Mapping[str, Any], _: Array) -> Array:
    is_last = {name: tag == _CHANNELS_LAST for name, tag in call["formats"].items()}
    inputs = _inputs(call, "input")
    for key, name in (("X", "input"), ("W", "weight")):
        if is_last[name]:
            inputs[key] = np.moveaxis(inputs[key], -1, 1)
    attributes = {**_steps(call), "group": call["groups"]}
    if call["transposed"]:
        extra = list(call["output_padding"])
        if any(map(int.__ge__, extra, call["stride"])):
            raise NotImplementedError("ONNX Runtime adds less than a stride to an output")
        made = _run("ConvTranspose", inputs, {**attributes, "output_padding": extra})
    else:
        made = _conv(inputs, attributes)
    return np.moveaxis(made, 1, -1) if is_last["output"] else made


def _conv_depthwise2d(call: Mapping[str, Any], _: Array) -> Array:
    inputs = _inputs(call, "self")
    return _conv(inputs, {**_steps(call), "group": inputs["X"].shape[1]})


def _inputs(call: Mapping[str, Any], image: str) -> dict[str, Array]:
    names = {"X": image, "W": "weight", "B": "bias"}
    return {key: call[name] for key, name in names.items() if name in call}


def _steps(call: Mapping[str, Any]) -> dict[str, list[int]]:
    """Strides, dilations and pads; those of two values a dimension are before and after it."""
    padding, axes = list(call["padding"]), len(call["stride"])
    before, after = (padding, padding) if len(padding) == axes else (padding[::2], padding[1::2])
    return {
        "strides": list(call["stride"]),
        "dilations": list(call["dilation"]),
        "pads": before + after,
    }


def _conv(inputs: Mapping[str, Array], attributes: Mapping[str, Any]) -> Array:
    if any(attributes["pads"]) and not all(np.isfinite(one).all() for one in inputs.values()):
        raise NotImplementedError("ONNX Runtime multiplies padding by infinities, which gives NaN")
    return _run("Conv", inputs, attributes)


COMPUTED = {
    "conv_depthwise2d": _conv_depthwise2d,
    "convolution": _convolution,
    "convolution_backward": _grad_input,
    "im2col_backward": _col2im,
}
"""The functions that compute an operator with ONNX Runtime, by its name."""


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
