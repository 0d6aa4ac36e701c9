"""The arguments and outputs of aclnnConvDepthwise2d, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.forward.sizes import Steps, implied_output
from opserve_kernels.tensor import Format, Tensor

CALL = "aclnnConvDepthwise2d"
"""The vendor's name of the call."""
OUTPUTS = ("out",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {4: Format.NCHW}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = "aclnn_convolution"
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {"cube_math_type": "int8_t"}
"""The C types of its integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvDepthwise2d:
    """Arguments of aclnnConvDepthwise2dGetWorkspaceSize; None is a null pointer.

    Attributes:
        self: (N, C, H, W), in a dtype of the profile: FLOAT, FLOAT16, BF16 or DOUBLE, which all
            tensors of a call have.
        weight: (M*C, 1, KH, KW): filters 0 .. M-1 belong to channel 0, and so on.
        kernel_size: KH and KW once more.
        bias: (M*C,), or None for a convolution without.
        stride: Steps of the kernel, down and across, at least 1.
        padding: Zeros around the image, above and below, left and right.
        dilation: Distance between kernel taps, down and across, at least 1.
        out: Written: (N, M*C, H', W').
        cube_math_type: 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32,
            4 USE_FP32_ADD.
    """

    self: Tensor | None = None
    weight: Tensor | None = None
    kernel_size: tuple[int, ...] | None = None
    bias: Tensor | None = None
    stride: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    out: Tensor | None = None
    cube_math_type: int | None = None


def infer_outputs(arguments: ConvDepthwise2d) -> Mapping[str, Tensor]:
    """The output implied by arguments without it: contiguous, without a buffer."""
    image, weight = arguments.self, arguments.weight
    if arguments.out is not None or image is None or weight is None:
        return {}
    steps = Steps(
        stride=arguments.stride or (),
        padding=arguments.padding or (),
        dilation=arguments.dilation or (),
    )
    return {"out": implied_output(image, weight, steps)}
