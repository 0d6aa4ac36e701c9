"""The arguments and outputs of conv2d_backprop_input, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.formats import BLOCK
from opserve_kernels.tensor import SPELLED, DataType, Format, Tensor

CALL = "conv2d_backprop_input"
"""The vendor's name of the call."""
OUTPUTS = ("res_tensor",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {4: Format.FRACTAL_Z, 5: Format.NC1HWC0}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = ""
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {}
"""The C types of its integers."""
_SIZES = 4  # N, C, H, W


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDict:
    """The results of the vendor's formulas for a weight's shape and its groups.

    Attributes:
        g_extend: Superblocks: groups / multiple_extend, rounded up.
        multiple_extend: Groups in a superblock.
        groups: Groups of channels.
        dx_c1_extend: Blocks of 16 input channels in a superblock.
        dy_c1_extend: Blocks of 16 output channels in a superblock.
        dx_c_ori: Input channels of a group.
        dy_c_ori: Output channels of a group.
        filter_batch_ori: Output channels of a group.
        filter_c_ori: Input channels of a group.
        filter_ori_format: "NCHW".
    """

    g_extend: int | None = None
    multiple_extend: int | None = None
    groups: int | None = None
    dx_c1_extend: int | None = None
    dy_c1_extend: int | None = None
    dx_c_ori: int | None = None
    dy_c_ori: int | None = None
    filter_batch_ori: int | None = None
    filter_c_ori: int | None = None
    filter_ori_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dBackpropInputParaDict:
    """The keys of para_dict.

    Attributes:
        strides: Steps of the kernel in height and width.
        padding: Zeros around the image: up, down, left, right.
        dilations: Distance of taps in N, C, height and width; 1 in N and C.
        res_dtype: Dtype of the result, as Python spells it; None means "float16".
        offset_x: Only 0 has a meaning for floating dtypes; None means 0.
        offset_w: Must be None.
        kernel_name: Name of the kernel; changes nothing.
        group_dict: Dictionary of a grouped convolution; None means one group.
    """

    strides: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    res_dtype: str | None = None
    offset_x: int | None = None
    offset_w: int | None = None
    kernel_name: str | None = None
    group_dict: GroupDict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dBackpropInput:
    """Arguments of conv2d_backprop_input; None is Python's.

    Attributes:
        filters: The weight, FRACTAL_Z (g_extend*dx_c1_extend*KH*KW, dy_c1_extend, 16, 16).
        out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
        filter_sizes: Cout, Cin/groups, KH, KW.
        input_sizes: N, Cin, H, W.
        para_dict: Everything else.
        res_tensor: Gradient of the convolution's input, NC1HWC0 (N, C1, H, W, 16); written.
    """

    filters: Tensor | None = None
    out_backprop: Tensor | None = None
    filter_sizes: tuple[int, ...] | None = None
    input_sizes: tuple[int, ...] | None = None
    para_dict: Conv2dBackpropInputParaDict | None = None
    res_tensor: Tensor | None = None


def infer_outputs(arguments: Conv2dBackpropInput) -> Mapping[str, Tensor]:
    """The gradient implied by arguments without one: contiguous, without a buffer."""
    sizes, para_dict = arguments.input_sizes, arguments.para_dict
    dtype = result_dtype(para_dict.res_dtype if para_dict else None)
    if arguments.res_tensor is not None or sizes is None or dtype is None:
        return {}
    if len(sizes) != _SIZES or min(sizes) < 0:
        return {}
    tensor = Tensor(shape=result_shape(sizes), dtype=dtype, format=Format.NC1HWC0)
    return {"res_tensor": tensor}


def result_dtype(spelling: str | None) -> DataType | None:
    """The dtype of a res_dtype, FLOAT16 without one; None for any other text."""
    return SPELLED.get("float16" if spelling is None else spelling)


def result_shape(input_sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The 5HD shape of an image N, C, H, W."""
    batch, channels, height, width = input_sizes
    return (batch, -(-channels // BLOCK), height, width, BLOCK)
