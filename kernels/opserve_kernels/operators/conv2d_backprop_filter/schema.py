"""The arguments and outputs of conv2d_backprop_filter, as the vendor's page names them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.formats import fractal_z_shape
from opserve_kernels.tensor import SPELLED, DataType, Format, Tensor

CALL = "conv2d_backprop_filter"
"""The vendor's name of the call."""
OUTPUTS = ("res_tensor",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {4: Format.FRACTAL_Z, 5: Format.NC1HWC0}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = ""
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {}
"""The C types of its integers."""
_SIZES = 4  # Cout, Cin/groups, KH, KW


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dBackpropFilterParaDict:
    """The keys of para_dict.

    Attributes:
        strides: Steps of the kernel in height and width; None means 1, 1.
        padding: Zeros around the image: up, down, left, right; None means none.
        dilations: Distance of taps in N, C, height and width; None means ones.
        groups: Groups of channels; None means 1.
        res_dtype: Dtype of the result, as Python spells it; None means "float32".
        kernel_name: Name of the kernel; changes nothing.
    """

    strides: tuple[int, ...] | None = None
    padding: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    groups: int | None = None
    res_dtype: str | None = None
    kernel_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dBackpropFilter:
    """Arguments of conv2d_backprop_filter; None is Python's.

    Attributes:
        input_x: The convolution's input, NC1HWC0 (N, C1, H, W, 16).
        out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
        filter_sizes: Cout, Cin/groups, KH, KW.
        para_dict: Everything else; None means its defaults.
        raw: Whether blocks between different groups contain the device's products there, of one
            group's input with another's output; None and False mean zeros.
        res_tensor: Gradient of the weight, FRACTAL_Z (real_g*cin1_g*KH*KW, cout_g/16, 16, 16);
            written.
    """

    input_x: Tensor | None = None
    out_backprop: Tensor | None = None
    filter_sizes: tuple[int, ...] | None = None
    para_dict: Conv2dBackpropFilterParaDict | None = None
    raw: bool | None = None
    res_tensor: Tensor | None = None


def infer_outputs(arguments: Conv2dBackpropFilter) -> Mapping[str, Tensor]:
    """The gradient implied by arguments without one: contiguous, without a buffer."""
    sizes = arguments.filter_sizes
    para_dict = arguments.para_dict or Conv2dBackpropFilterParaDict()
    groups = 1 if para_dict.groups is None else para_dict.groups
    dtype = result_dtype(para_dict.res_dtype)
    if arguments.res_tensor is not None or sizes is None or dtype is None:
        return {}
    if len(sizes) != _SIZES or min(sizes) < 1 or groups < 1 or sizes[0] % groups != 0:
        return {}
    shape = fractal_z_shape(sizes, groups)
    return {"res_tensor": Tensor(shape=shape, dtype=dtype, format=Format.FRACTAL_Z)}


def result_dtype(spelling: str | None) -> DataType | None:
    """The dtype of a res_dtype, FLOAT without one; None for any other text."""
    return SPELLED.get("float32" if spelling is None else spelling)
