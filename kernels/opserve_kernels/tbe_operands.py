"""Tensors of NC1HWC0 and FRACTAL_Z as the operands of a convolution of superblocks.

The groups of that convolution are the superblocks of FRACTAL_Z. Its channels fill whole blocks; an
image has the first of them, in plain order, and lacks blocks without a channel.
"""

from opserve_kernels.convolution import Convolution
from opserve_kernels.formats import BLOCK, Superblocks
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.tensor import Tensor

Row = tuple[int, ...]


def image_operand(tensor: Tensor, place: int, number_format: int = FLOAT) -> Operand:
    """An image (N, C1, H, W, C0).

    Args:
        tensor: The image.
        place: Place of the tensor among the schema's.
        number_format: Format that its values are rounded to; FLOAT rounds none.
    """
    batch, blocks, height, width, lanes = zip(tensor.shape, tensor.element_strides, strict=True)
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=((blocks, lanes), (batch, height, width)),
        number_format=number_format,
    )


def weight_operand(
    tensor: Tensor, place: int, blocks: Superblocks, *, taps: int, number_format: int = FLOAT
) -> Operand:
    """A weight (G*C1*KH*KW, N1, 16, C0).

    Args:
        tensor: The weight.
        place: Place of the tensor among the schema's.
        blocks: Layout of its groups.
        taps: KH*KW.
        number_format: Format that its values are rounded to; FLOAT rounds none.
    """
    row, output_block, output_lane, input_lane = tensor.element_strides
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=(
            ((blocks.count, blocks.input_blocks * taps * row),),
            ((blocks.output_blocks, output_block), (BLOCK, output_lane)),
            ((blocks.input_blocks, taps * row), (blocks.c0, input_lane)),
            ((taps, row),),
        ),
        number_format=number_format,
    )


def convolution_of(
    blocks: Superblocks,
    image: Row,
    output: Row,
    *,
    kernel: Row,
    steps: tuple[Row, Row, Row],
) -> Convolution:
    """The convolution of whole superblocks.

    Args:
        blocks: Layout of its groups.
        image: N, C1, H, W, C0 of its image.
        output: The same for its output.
        kernel: KH, KW.
        steps: Stride, padding before the image and dilation, each in height and width.
    """
    stride, padding, dilation = steps
    return Convolution(
        batch=image[0],
        groups=blocks.count,
        input_channels=blocks.input_blocks * blocks.c0,
        output_channels=blocks.output_blocks * BLOCK,
        input_size=(1, image[2], image[3]),
        output_size=(1, output[2], output[3]),
        kernel_size=(1, kernel[0], kernel[1]),
        stride=(1, stride[0], stride[1]),
        padding=(0, padding[0], padding[1]),
        dilation=(1, dilation[0], dilation[1]),
    )
