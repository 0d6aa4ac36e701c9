"""The arguments and outputs of aclnnConvolution, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.forward.sizes import Steps, implied_output
from opserve_kernels.tensor import Format, Tensor

CALL = "aclnnConvolution"
"""The vendor's name of the call."""
OUTPUTS = ("output",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_convolution"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {"groups": "int64_t", "cube_math_type": "int8_t"}
"""The C types of its integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Arguments of aclnnConvolutionGetWorkspaceSize; None is a null pointer.

    Shapes are those of a convolution in 1, 2 or 3 spatial dimensions S. In 3-D, a tensor in format
    NDHWC has its channels last.

    Attributes:
        input: (N, C, *S), in a dtype of the profile, as are all tensors: FLOAT, FLOAT16, BF16 or
            DOUBLE.
        weight: (K, C/groups, *kernel); of a transposed convolution (C, K/groups, *kernel).
        bias: (K,), or None for a convolution without.
        stride: Steps of the kernel, one for each spatial dimension, at least 1.
        padding: Zeros around the input, one for each spatial dimension; or before and after each:
            2 in 1-D unless transposed, 4 in 2-D: up, down, left, right.
        dilation: Distance between kernel taps, one for each spatial dimension, at least 1.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed convolution; else not read.
        groups: Groups of channels, at least 1.
        output: Written: (N, K, *S').
        cube_math_type: 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32,
            4 USE_FP32_ADD.
    """

    input: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None
    stride: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    transposed: bool | None = None
    output_padding: tuple[int, ...] | None = None
    groups: int | None = None
    output: Tensor | None = None
    cube_math_type: int | None = None


def infer_outputs(arguments: Convolution) -> Mapping[str, Tensor]:
    """The output implied by arguments without it: contiguous, without a buffer."""
    input_, weight = arguments.input, arguments.weight
    if arguments.output is not None or input_ is None or weight is None:
        return {}
    steps = Steps(
        stride=arguments.stride or (),
        padding=arguments.padding or (),
        dilation=arguments.dilation or (),
        transposed=bool(arguments.transposed),
        output_padding=arguments.output_padding or (),
        groups=arguments.groups or 1,
    )
    return {"output": implied_output(input_, weight, steps)}
