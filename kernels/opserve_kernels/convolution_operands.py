"""Tensors of a convolution as the operands of its products."""

from opserve_kernels.gradients import Operand
from opserve_kernels.tensor import Tensor


def image_operand(tensor: Tensor, place: int, number_format: int) -> Operand:
    """An image (N, C, spatial sizes), channels first: each is then contiguous over the batch."""
    batch, channels, *positions = zip(tensor.shape, tensor.element_strides, strict=True)
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=((channels,), (batch, *positions)),
        number_format=number_format,
    )


def weight_operand(tensor: Tensor, place: int, groups: int, number_format: int) -> Operand:
    """A weight, whose dimension 0 has the groups outermost, transposed or not."""
    (size, step), channels, *taps = zip(tensor.shape, tensor.element_strides, strict=True)
    group_size = size // groups
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=(
            ((groups, group_size * step),),
            ((group_size, step),),
            (channels,),
            tuple(taps),
        ),
        number_format=number_format,
    )


def channel_operand(tensor: Tensor, place: int, number_format: int) -> Operand:
    """A value for each channel, as a bias has."""
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=(((tensor.shape[0], tensor.element_strides[0]),),),
        number_format=number_format,
    )
