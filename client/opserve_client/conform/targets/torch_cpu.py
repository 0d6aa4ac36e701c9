"""PyTorch's convolution_backward on the CPU as a target, and an example of one; needs torch."""

from importlib import import_module
from typing import Any

import numpy as np

from opserve_client.conform.targets.target import Array
from opserve_client.data_types import DataType

_torch: Any = import_module("torch")  # no package of ours needs it
_BF16 = DataType.BF16.numpy
_OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


def convolution_backward(
    *,
    grad_output: Array,
    input: Array,  # noqa: A002  the operator's name of it
    weight: Array,
    profile: str,
    cube_math_type: int,
    **others: Any,  # noqa: ANN401  the operator's arguments
) -> dict[str, Array]:
    """aten::convolution_backward, in the dtype of its operands.

    Raises:
        NotImplementedError: Operands of different dtypes, rounded ones, padding that differs by
            side; calls of profiles that round more often.
    """
    dtypes = {grad_output.dtype, input.dtype, weight.dtype}
    if len(dtypes) > 1:
        raise NotImplementedError("operands of one dtype only")
    if profile not in {"ascend910b", "reference"}:
        raise NotImplementedError(f"{profile} rounds in its own way")
    if cube_math_type and grad_output.dtype == np.float32:
        raise NotImplementedError("operands are not rounded")
    given = [_tensor(array) for array in (grad_output, input, weight)]
    found = _torch.ops.aten.convolution_backward(
        *given,
        others["bias_sizes"],
        others["stride"],
        _padding(others["padding"], input.ndim - 2),
        others["dilation"],
        others["transposed"],
        others["output_padding"],
        others["groups"],
        others["output_mask"],
    )
    named = zip(_OUTPUTS, found, strict=True)
    return {name: _array(tensor) for name, tensor in named if tensor is not None}


def _padding(padding: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if len(padding) == axes:
        return padding
    up, down, left, right = padding
    if (up, left) != (down, right):
        raise NotImplementedError("padding that differs by side")
    return up, left


def _tensor(array: Array) -> Any:  # noqa: ANN401  torch's
    if array.dtype == _BF16:
        return _torch.from_numpy(array.view(np.int16)).view(_torch.bfloat16)
    return _torch.from_numpy(array)


def _array(tensor: Any) -> Array:  # noqa: ANN401  torch's
    whole = tensor.contiguous()
    if whole.dtype == _torch.bfloat16:
        return np.asarray(whole.view(_torch.int16).numpy().view(_BF16))
    return np.asarray(whole.numpy())
