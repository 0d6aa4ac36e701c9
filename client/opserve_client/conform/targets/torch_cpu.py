"""PyTorch's kernels on the CPU as a target: "torch". Needs the package torch.

In FLOAT16 the target fails, and rightly so: PyTorch adds partial sums in FLOAT16. In BF16 PyTorch
does the same when it folds columns, so this module folds them in FLOAT. So it does with calls over
(T, B, C): PyTorch rounds the sum of each tap to BF16, and makes a NaN of some infinite gradients.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

torch: Any = import_module("torch")  # an optional package
torch.set_num_threads(1)  # several processes run cases at the same time
Array = NDArray[Any]
Tensor = Any
Tensors = Mapping[str, Tensor]
_BY_SIZE = {2: np.int16, 4: np.int32, 8: np.int64}
_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_SUMMED = {torch.bfloat16: torch.float32}
_UNCHANGED = {
    "float16": range(5),
    "bfloat16": (0, 1, 3, 4),
    "float32": (0, 4),
    "float64": (0, 4),
}
"""The values of cube_math_type that leave operands of a dtype as they are."""
_PROFILES = dict.fromkeys(("float16", "bfloat16", "float32"), "ascend910b") | {
    "float64": "reference"
}
"""The profile that, like PyTorch, sums operands of a dtype in one precision and rounds once."""
_CHANNELS_LAST = "NDHWC"


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
    """Computes the aclnn operators for operands and results of one dtype.

    Raises:
        NotImplementedError: PyTorch has no such call.
    """
    if operator not in COMPUTED:
        raise NotImplementedError(operator)
    operands: dict[str, Array] = {
        name: one for name, one in call.items() if isinstance(one, np.ndarray)
    }
    results = [
        array for array in (grad_input, grad_weight, grad_bias, output, out) if array is not None
    ]
    dtypes = {array.dtype.name for array in (*operands.values(), *results)}
    if len(dtypes) > 1:
        raise NotImplementedError("operands and results of several dtypes")
    if profile != _PROFILES[dtypes.pop()]:
        raise NotImplementedError(f"{profile} sums or rounds in another way")
    given = {name: _tensor(array) for name, array in operands.items()}
    made = COMPUTED[operator](given, {**call, "formats": formats})
    for array, tensor in zip(results, made, strict=True):
        _bits(array)[...] = _bits_of(tensor)


def _convolution_backward(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    operands = [given[name] for name in ("grad_output", "input", "weight")]
    _check_products(operands, call, call["padding"])
    rows = [list(call[name]) for name in ("bias_sizes", "stride", "padding", "dilation")]
    extra, mask = list(call["output_padding"]), list(call["output_mask"])
    found = torch.ops.aten.convolution_backward(
        *operands, *rows, call["transposed"], extra, call["groups"], mask
    )
    return [tensor for tensor, wanted in zip(found, mask, strict=True) if wanted]


def _convolution(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    _check_products([given["input"], given["weight"]], call, call["padding"])
    is_last = {name: tag == _CHANNELS_LAST for name, tag in call["formats"].items()}
    image, weight = (
        given[name].movedim(-1, 1) if is_last[name] else given[name] for name in ("input", "weight")
    )
    rows = [list(call[name]) for name in ("stride", "padding", "dilation")]
    extra = list(call["output_padding"])
    made = torch.ops.aten.convolution(
        *(image, weight, given.get("bias"), *rows, call["transposed"], extra, call["groups"])
    )
    return [made.movedim(1, -1) if is_last["output"] else made]


def _conv_depthwise2d(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    image, weight = given["self"], given["weight"]
    _check_products([image, weight], call, call["padding"])
    _check_sizes([image, weight])
    rows = [list(call[name]) for name in ("stride", "padding", "dilation")]
    bias, channels = given.get("bias"), image.shape[1]
    return [torch.nn.functional.conv2d(image, weight, bias, *rows, channels)]


def _conv_tbc(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    operands = [given[name] for name in ("self", "weight", "bias")]
    _check_products(operands[:2], call, [call["pad"]])
    _check_sizes(operands)
    contiguous = (_wide(one).contiguous() for one in operands)  # as PyTorch needs them
    made = torch.conv_tbc(*contiguous, call["pad"])
    return [made.to(operands[0].dtype)]


def _check_products(
    operands: Sequence[Tensor], call: Mapping[str, Any], padding: Sequence[int]
) -> None:
    """Rejects products that PyTorch lacks, or rounds or multiplies in another way."""
    (dtype,) = {str(tensor.dtype).removeprefix("torch.") for tensor in operands}
    if call["cube_math_type"] not in _UNCHANGED[dtype]:
        raise NotImplementedError(f"cube_math_type {call['cube_math_type']} of {dtype}")
    if len(padding) != operands[0].dim() - 2:
        raise NotImplementedError("padding that differs by side")
    is_finite = all(bool(tensor.isfinite().all()) for tensor in operands)
    if any(padding) and not is_finite:
        raise NotImplementedError("PyTorch multiplies padding by infinities, which gives NaN")
    if dtype == "bfloat16" and not is_finite and any(map(_has_subnormals, operands)):
        raise NotImplementedError(
            "some processors flush subnormal BF16 to 0, and 0 times an infinity is NaN"
        )


def _check_sizes(operands: Sequence[Tensor]) -> None:
    if not all(tensor.numel() for tensor in operands):
        raise NotImplementedError("a convolution without products")


def _has_subnormals(tensor: Tensor) -> bool:
    least = torch.finfo(tensor.dtype).tiny
    return bool(((tensor != 0) & (tensor.abs() < least)).any())


def _im2col_backward(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    columns = given["grad_output"]
    if not columns.numel():
        raise NotImplementedError("columns without elements")
    names = ("input_size", "kernel_size", "dilation", "padding", "stride")
    image = torch.ops.aten.col2im(_wide(columns), *(list(call[name]) for name in names))
    return [image.to(columns.dtype)]


def _im2col(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    image = given["self"]
    if not image.numel():
        raise NotImplementedError("an image without elements")
    rows = (list(call[name]) for name in ("kernel_size", "dilation", "padding", "stride"))
    return [torch.ops.aten.im2col(image, *rows)]


def _conv_tbc_backward(given: Tensors, call: Mapping[str, Any]) -> list[Tensor]:
    axes = {"self": (1, 2, 0), "input": (1, 2, 0), "weight": (2, 1, 0)}
    operands = [given[name].permute(*order) for name, order in axes.items()]
    _check_products(operands, call, [call["pad"]])
    _check_sizes(operands)
    image, weight, bias = torch.ops.aten.convolution_backward(
        *map(_wide, operands),
        *(given["bias"].shape, [1], [call["pad"]], [1], False, [0], 1, [True] * 3),
    )
    found = (image.permute(2, 0, 1), weight.permute(2, 1, 0), bias)
    return [gradient.to(operands[0].dtype) for gradient in found]


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(_SUMMED.get(tensor.dtype, tensor.dtype))


COMPUTED = {
    "conv_depthwise2d": _conv_depthwise2d,
    "conv_tbc": _conv_tbc,
    "conv_tbc_backward": _conv_tbc_backward,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "im2col": _im2col,
    "im2col_backward": _im2col_backward,
}
"""The functions that compute an operator with PyTorch, by its name."""


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
