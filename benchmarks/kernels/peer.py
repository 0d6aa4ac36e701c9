"""PyTorch on the CPU, which uses oneDNN where it can, for comparison."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.kernels.arrays import Array
from benchmarks.kernels.shapes import ConvolutionShape, FoldShape
from benchmarks.kernels.subject import Mask

Tensor = Any
"""A tensor of PyTorch, which is not installed where the type checkers run."""
Peer = Callable[[], Any]

_torch: Any = import_module("torch")
_CHANNELS_LAST = {2: _torch.channels_last, 3: _torch.channels_last_3d}
HAS_CHANNELS_LAST = frozenset(_CHANNELS_LAST)
"""Ranks that have a layout with channels last."""


def use_threads(count: int) -> None:
    """Sets the number of threads; one means the caller's, whose CPU time is then the whole time."""
    _torch.set_num_threads(count)
    assert _torch.get_num_threads() == count


def version() -> str:
    return str(_torch.__version__)


def gradients_peer(shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask) -> Peer:
    """Returns a call of convolution_backward on contiguous tensors."""
    return _gradients(shape, [_tensor(arrays[name]) for name in _OPERANDS], mask)


def channels_last_peer(shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask) -> Peer:
    """Returns a call of convolution_backward on tensors with channels last, converted before."""
    layout = _CHANNELS_LAST[shape.rank]
    operands = [_tensor(arrays[name]).contiguous(memory_format=layout) for name in _OPERANDS]
    return _gradients(shape, operands, mask)


def exact_gradients(
    shape: ConvolutionShape, arrays: Mapping[str, Array], mask: Mask
) -> dict[str, Array]:
    """Returns the gradients of the same operands in float64."""
    operands = [_tensor(arrays[name].astype(np.float64)) for name in _OPERANDS]
    return results_of(_gradients(shape, operands, mask))


def results_of(peer: Peer) -> dict[str, Array]:
    """Returns the gradients of a call by name."""
    found = zip(("grad_input", "grad_weight", "grad_bias"), peer(), strict=True)
    return {name: as_float64(tensor) for name, tensor in found if tensor is not None}


def as_float64(tensor: Tensor) -> Array:
    array: Array = tensor.to(_torch.float64).numpy()
    return array


def forward_peer(shape: ConvolutionShape, arrays: Mapping[str, Array]) -> Peer:
    """Returns a call of convolution on contiguous tensors."""
    call = _torch.ops.aten.convolution
    arguments = (
        *(_tensor(arrays[name]) for name in ("input", "weight", "bias")),
        *(list(values) for values in (shape.stride, shape.padding, shape.dilation)),
        shape.transposed,
        list(shape.output_padding),
        shape.groups,
    )
    return lambda: call(*arguments)


def exact_output(shape: ConvolutionShape, arrays: Mapping[str, Array]) -> Array:
    """Returns the output of the same operands in float64."""
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}
    return as_float64(forward_peer(shape, exact)())


def fold_peer(shape: FoldShape, columns: Array) -> Peer:
    """Returns a call of col2im, as in torch.nn.functional.fold."""
    tensor = _tensor(columns)
    return lambda: _torch.ops.aten.col2im(tensor, shape.size, *_pairs(shape))


def unfold_peer(shape: FoldShape, image: Array) -> Peer:
    """Returns a call of im2col, as in torch.nn.functional.unfold."""
    tensor = _tensor(image)
    return lambda: _torch.ops.aten.im2col(tensor, *_pairs(shape))


def exact_fold(shape: FoldShape, columns: Array) -> Array:
    """Returns the images of the same columns in float64."""
    return as_float64(fold_peer(shape, columns.astype(np.float64))())


def _pairs(shape: FoldShape) -> list[tuple[int, int]]:
    values = (shape.kernel, shape.dilation, shape.padding, shape.stride)
    return [(value, value) for value in values]


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
