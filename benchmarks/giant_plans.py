"""Calls of GetWorkspaceSize with small messages and giant convolutions."""

from collections.abc import Iterator, Sequence

from opserve.v1.convolution_backward_pb2 import ConvolutionBackward
from opserve.v1.tensor_pb2 import DATA_TYPE_BF16, FORMAT_NCHW, BoolArray, Int64Array, Tensor

STRIDE, PADDING = 63, 3
SIZES = ((2_147_483_647, 1_000_000), (2_000_000, 1000), (200_000, 1000), (20_000, 1000))
"""Heights and widths of a plan that once never ended, and of some that took seconds."""


def giant_plans() -> Iterator[ConvolutionBackward]:
    """Yields transposed convolutions with 63 rows of output for each row of input."""
    for height, width in SIZES:
        rows, columns = (height - 1) * STRIDE - 2 * PADDING + 1, width - 2 * PADDING
        image, weight = (2, 3, height, width), (3, 3, 1, 1)
        yield ConvolutionBackward(
            grad_output=_tensor((2, 3, rows, columns)),
            input=_tensor(image),
            weight=_tensor(weight),
            stride=Int64Array(values=[STRIDE, 1]),
            padding=Int64Array(values=[PADDING, PADDING]),
            dilation=Int64Array(values=[1, 3]),
            transposed=True,
            output_padding=Int64Array(values=[0, 0]),
            groups=1,
            output_mask=BoolArray(values=[True, True, False]),
            cube_math_type=0,
            grad_input=_tensor(image),
            grad_weight=_tensor(weight),
        )


def _tensor(shape: Sequence[int]) -> Tensor:
    return Tensor(shape=shape, dtype=DATA_TYPE_BF16, format=FORMAT_NCHW)
