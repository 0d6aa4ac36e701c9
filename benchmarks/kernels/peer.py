"""The other side: PyTorch on the CPU, which computes with oneDNN where it can."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.kernels.arrays import Array
from benchmarks.kernels.shapes import ConvolutionShape, FoldShape
from benchmarks.kernels.subject import Mask

Tensor = Any
"""A tensor of PyTorch's, whose types the environment of the type checkers does not have."""
Peer = Callable[[], Any]

_torch: Any = import_module("torch")
_CHANNELS_LAST = {2: _torch.channels_last, 3: _torch.channels_last_3d}
HAS_CHANNELS_LAST = frozenset(_CHANNELS_LAST)
"""Ranks with a layout whose channels are last."""


def use_threads(count: int) -> None:
    """Computes on so many; if on one, it is the caller's, whose CPU time then tells all."""
    _torch.set_num_threads(count)
    assert _torch.get_num_threads() == count


def version() -> str:
    return str(_torch.__version__)


def gradients_peer(shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask) -> Peer:
    """convolution_backward of contiguous tensors."""
    return _gradients(shape, [_tensor(arrays[name]) for name in _OPERANDS], mask)


def channels_last_peer(shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask) -> Peer:
    """convolution_backward of tensors whose channels are last, made so before."""
    layout = _CHANNELS_LAST[shape.rank]
    operands = [_tensor(arrays[name]).contiguous(memory_format=layout) for name in _OPERANDS]
    return _gradients(shape, operands, mask)


def exact_gradients(
    shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask
) -> dict[str, Array]:
    """The gradients of the same operands in float64."""
    operands = [_tensor(arrays[name].astype(np.float64)) for name in _OPERANDS]
    return results_of(_gradients(shape, operands, mask))


def results_of(peer: Peer) -> dict[str, Array]:
    """The gradients that a call computes, by name."""
    found = zip(("grad_input", "grad_weight", "grad_bias"), peer(), strict=True)
    return {name: as_float64(tensor) for name, tensor in found if tensor is not None}


def as_float64(tensor: Tensor) -> Array:
    array: Array = tensor.to(_torch.float64).numpy()
    return array


def fold_peer(shape: FoldShape, columns: Array) -> Peer:
    """col2im, which torch.nn.functional.fold calls."""
    pairs = [(value,) * 2 for value in (shape.kernel, shape.dilation, shape.padding, shape.stride)]
    tensor = _tensor(columns)
    return lambda: _torch.ops.aten.col2im(tensor, shape.size, *pairs)


def exact_fold(shape: FoldShape, columns: Array) -> Array:
    """The images of the same columns in float64."""
    return as_float64(fold_peer(shape, columns.astype(np.float64))())


_OPERANDS = ("grad_output", "input", "weight")


def _gradients(shape: ConvolutionShape, operands: Sequence[Tensor], mask: Mask) -> Peer:
    call = _torch.ops.aten.convolution_backward
    arguments = (
        *operands,
        [shape.out_channels] if mask[2] else None,
        *(list(values) for values in (shape.stride, shape.padding, shape.dilation)),
        shape.transposed,
        list(shape.output_padding),
        shape.groups,
        list(mask),
    )
    return lambda: call(*arguments)


def _tensor(array: Array) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return _torch.from_numpy(array.view(np.int16)).view(_torch.bfloat16)
    return _torch.from_numpy(array)
