"""PyTorch's kernels on the CPU as a target: "torch". Needs the package torch.

In FLOAT16 the target fails, and rightly so: PyTorch adds partial sums in FLOAT16. In BF16 PyTorch
does the same when it folds columns, so this module folds them in FLOAT. So it does with gradients
over (T, B, C), where PyTorch's BF16 makes a NaN of some infinite sums.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

torch: Any = import_module("torch")  # an optional package
torch.set_num_threads(1)  # several processes run cases at the same time
Array = NDArray[Any]
Tensor = Any
_BY_SIZE = {2: np.int16, 4: np.int32, 8: np.int64}
_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_SUMMED = {torch.bfloat16: torch.float32}
_UNCHANGED = {"float16": range(4), "bfloat16": (0, 1, 3), "float32": (0,), "float64": (0,)}
"""The values of cube_math_type that leave operands of a dtype as they are."""
_PROFILES = dict.fromkeys(("float16", "bfloat16", "float32"), "ascend910b") | {
    "float64": "reference"
}
"""The profile that, like PyTorch, sums operands of a dtype in one precision and rounds once."""


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
    """Computes the aclnn operators for operands and results of one dtype.

    Raises:
        NotImplementedError: PyTorch has no such call.
    """
    if operator not in _COMPUTED:
        raise NotImplementedError(operator)
    operands = [call[name] for name in ("grad_output", "input", "weight", "self") if name in call]
    if profile != _PROFILES[operands[0].dtype.name]:
        raise NotImplementedError(f"{profile} sums or rounds in another way")
    results = [array for array in (grad_input, grad_weight, grad_bias, out) if array is not None]
    if len({array.dtype.name for array in (*operands, *results)}) > 1:
        raise NotImplementedError("operands and results of several dtypes")
    made = _COMPUTED[operator]([_tensor(array) for array in operands], call)
    for array, tensor in zip(results, made, strict=True):
        _bits(array)[...] = _bits_of(tensor)


def _convolution_backward(given: list[Tensor], call: Mapping[str, Any]) -> list[Tensor]:
    dtype = call["grad_output"].dtype.name
    if call["cube_math_type"] not in _UNCHANGED[dtype]:
        raise NotImplementedError(f"cube_math_type {call['cube_math_type']} of {dtype}")
    if len(call["padding"]) != len(call["stride"]):
        raise NotImplementedError("padding that differs by side")
    is_finite = all(bool(tensor.isfinite().all()) for tensor in given)
    if any(call["padding"]) and not is_finite:
        raise NotImplementedError("PyTorch multiplies padding by infinities, which gives NaN")
    if dtype == "bfloat16" and not is_finite and any(map(_has_subnormals, given)):
        raise NotImplementedError(
            "some processors flush subnormal BF16 to 0, and 0 times an infinity is NaN"
        )
    rows = [list(call[name]) for name in ("bias_sizes", "stride", "padding", "dilation")]
    extra, mask = list(call["output_padding"]), list(call["output_mask"])
    found = torch.ops.aten.convolution_backward(
        *given, *rows, call["transposed"], extra, call["groups"], mask
    )
    return [tensor for tensor, wanted in zip(found, mask, strict=True) if wanted]


def _has_subnormals(tensor: Tensor) -> bool:
    least = torch.finfo(tensor.dtype).tiny
    return bool(((tensor != 0) & (tensor.abs() < least)).any())


def _im2col_backward(given: list[Tensor], call: Mapping[str, Any]) -> list[Tensor]:
    (columns,) = given
    if not columns.numel():
        raise NotImplementedError("columns without elements")
    names = ("input_size", "kernel_size", "dilation", "padding", "stride")
    wide = columns.to(_SUMMED.get(columns.dtype, columns.dtype))
    image = torch.ops.aten.col2im(wide, *(list(call[name]) for name in names))
    return [image.to(columns.dtype)]


def _im2col(given: list[Tensor], call: Mapping[str, Any]) -> list[Tensor]:
    (image,) = given
    if not image.numel():
        raise NotImplementedError("an image without elements")
    rows = (list(call[name]) for name in ("kernel_size", "dilation", "padding", "stride"))
    return [torch.ops.aten.im2col(image, *rows)]


def _conv_tbc_backward(given: list[Tensor], call: Mapping[str, Any]) -> list[Tensor]:
    image, weight, incoming = given
    if not image.numel() or not weight.numel():
        raise NotImplementedError("a convolution without products")
    plain = {
        "grad_output": call["self"],
        "bias_sizes": weight.shape[2:],
        "padding": [call["pad"]],
        "stride": [1],
        "dilation": [1],
        "output_padding": [0],
        "transposed": False,
        "groups": 1,
        "output_mask": [True] * 3,
        "cube_math_type": call["cube_math_type"],
    }
    dtype = image.dtype
    wide = [tensor.to(_SUMMED.get(dtype, dtype)) for tensor in (incoming, image, weight)]
    axes = ((1, 2, 0), (1, 2, 0), (2, 1, 0))
    operands = [tensor.permute(*order) for tensor, order in zip(wide, axes, strict=True)]
    grad_input, grad_weight, grad_bias = _convolution_backward(operands, plain)
    found = (grad_input.permute(2, 0, 1), grad_weight.permute(2, 1, 0), grad_bias)
    return [gradient.to(dtype) for gradient in found]


_COMPUTED = {
    "conv_tbc_backward": _conv_tbc_backward,
    "convolution_backward": _convolution_backward,
    "im2col": _im2col,
    "im2col_backward": _im2col_backward,
}


def _tensor(array: Array) -> Tensor:
    """Returns a tensor over the array's memory; the dtype is set by a view, as bfloat16 differs."""
    return torch.from_numpy(_bits(array)).view(_DTYPES[array.dtype.name])


def _bits_of(tensor: Tensor) -> Array:
    size = tensor.element_size()
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bits: Array = tensor.contiguous().view(kind).numpy()
    return bits


def _bits(array: Array) -> Array:
    return array.view(_BY_SIZE[array.itemsize])
