"""aclnnConvolution: a convolution in one, two or three dimensions, plain or transposed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.operators.convolution_backward import CubeMathType
from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument, rank_of
from opserve_kernels.operators.convolution import schema as kernel_schema
from opserve_kernels.status import AnyStatus, Status

_CHANNEL_AXES = 2
"""Axes of a tensor besides the spatial ones."""


class ConvolutionResult(NamedTuple):
    """The outputs by the vendor's names."""

    output: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """Arguments of aclnnConvolutionGetWorkspaceSize; None is a null pointer.

    A field without a default must be given, if only as None; without a bias, none is added.

    Shapes are those of a convolution in 1, 2 or 3 spatial dimensions S: input (N, C, *S), weight
    (K, C/groups, *kernel) and output (N, K, *S'); for a transposed one weight is
    (C, K/groups, *kernel). Tensors are FLOAT, FLOAT16 or BF16, on `reference` DOUBLE too. A tensor
    is an array of any library in host memory (for session.run) or a Tensor in device memory. A
    Tensor of 5 dimensions may have the format NDHWC.

    Errors: 161001 a null pointer; 161002 a dtype, format, shape or value that breaks a rule; 361001
    a call that the vendor's source rejects only after its rules.

    Attributes:
        input: The convolution's input.
        weight: The convolution's weight.
        bias: A value for each channel of the output, or None.
        stride: Steps of the kernel, one for each spatial dimension, at least 1; an integer means
            the same step in each, as for padding, dilation and output_padding.
        padding: Zeros around the input, one for each spatial dimension; or before and after each:
            2 in 1-D unless transposed, 4 in 2-D: up, down, left, right.
        dilation: Distance between kernel taps, one for each spatial dimension, at least 1.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed convolution; not read otherwise.
        groups: Groups of channels, at least 1.
        output: Output. For None, session.run creates it in the dtype promote(input, weight); for a
            dtype or an array, in that dtype.
        cube_math_type: Precision of the computation; 4, USE_FP32_ADD, computes as KEEP_DTYPE.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = Status.ACLNN_ERR_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    input: TensorArgument
    weight: TensorArgument
    bias: TensorArgument = None
    stride: int | Sequence[int] | None
    padding: int | Sequence[int] | None
    dilation: int | Sequence[int] | None
    transposed: bool | None
    output_padding: int | Sequence[int] | None
    groups: int | None
    output: OutputArgument = None
    cube_math_type: CubeMathType | int | None

    def result(self, outputs: Mapping[str, Array]) -> ConvolutionResult:
        """The outputs by their names."""
        return ConvolutionResult(outputs["output"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the spatial dimensions, by attributes that an integer sets in each of them."""
        ranks = map(rank_of, (self.input, self.weight))
        rank = next((rank for rank in ranks if rank is not None), 0)
        names = ("stride", "padding", "dilation", "output_padding")
        return dict.fromkeys(names, max(rank - _CHANNEL_AXES, 1))
