"""The arguments and outputs of {fp,hp}_deconv_grad_filter_{s,p}, with the page's names."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.tensor import Format, Tensor

CALL = "deconv_grad_filter"
"""The vendor's name of the call."""
OUTPUTS = ("dw_data",)
"""The tensors that a call writes, in the schema's order."""
FORMATS: Mapping[int, Format] = {4: Format.NHWC}
"""Formats of arrays by number of dimensions; ND elsewhere."""
C_HEADER = ""
"""The vendor's C header of the call; "" where there is none."""
C_TYPES: Mapping[str, str] = {}
"""The C types of its integers."""
FUNCTIONS = tuple(
    f"{dtype}_deconv_grad_filter_{memory}" for dtype in ("fp", "hp") for memory in "sp"
)
"""The vendor's names of the call, each an option `function` of it."""
X_SIZES = ("input_batch", "in_h", "in_w", "in_c")
DY_SIZES = ("batch", "out_h", "out_w", "out_c")
PARAM_FIELDS = (
    *X_SIZES,
    *DY_SIZES,
    *("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_u", "pad_l"),
    *("dilation_h", "dilation_w", "group", "temp_space"),
)
"""The fields that param holds, in its order."""
IMAGE_RANK = 4
_DEFAULTS: Mapping[str, int] = {
    **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "group"), 1),
    **dict.fromkeys(("pad_u", "pad_l", "temp_space"), 0),
}
_NEEDED = ("in_c", "out_c", "kernel_h", "kernel_w", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvGradFilter:
    """Arguments of a call; None means that an argument is missing.

    The numbers come from `param`, or from the fields of the same names, but not from both.

    Attributes:
        dy_data: Gradient of the deconvolution's output (batch, out_h, out_w, out_c).
        x_data: The deconvolution's input (input_batch, in_h, in_w, in_c).
        dw_data: Gradient of the weight (group, out_c/group*kernel_h*kernel_w, in_c/group); written.
        param: The vendor's array: the fields input_batch to temp_space in this order, and up to
            two entries more, which are ignored.
        core_mask: Cores to run on, a bit for each; of the _s functions only.
        function: The function, "fp_deconv_grad_filter_s" and so on; None means fp or hp by
            dy_data's dtype, and _s if there is a core_mask, else _p.
        input_batch: Entries of x_data; None means its shape's, as for the next seven.
        in_h: Height of x_data.
        in_w: Width of x_data.
        in_c: Channels of x_data.
        batch: Entries of dy_data.
        out_h: Height of dy_data.
        out_w: Width of dy_data.
        out_c: Channels of dy_data.
        kernel_h: Height of the kernel.
        kernel_w: Width of the kernel.
        stride_h: Step in height; None means 1, as for stride_w.
        stride_w: Step in width.
        pad_u: Padding above; None means 0, as for pad_l.
        pad_l: Padding on the left.
        dilation_h: Distance of taps in height; None means 1, as for dilation_w.
        dilation_w: Distance of taps in width.
        group: Groups of channels; None means 1.
        temp_space: 0 or the handle of a buffer of kernel_h*kernel_w*(out_c/group)*in_h*in_w
            elements at least, which is not used; None means 0.
        row_order: Order of a group's rows in dw_data: "oc_kh_kw", which None means, or "kh_kw_oc".
    """

    dy_data: Tensor | None = None
    x_data: Tensor | None = None
    dw_data: Tensor | None = None
    param: tuple[int, ...] | None = None
    core_mask: int | None = None
    function: str | None = None
    input_batch: int | None = None
    in_h: int | None = None
    in_w: int | None = None
    in_c: int | None = None
    batch: int | None = None
    out_h: int | None = None
    out_w: int | None = None
    out_c: int | None = None
    kernel_h: int | None = None
    kernel_w: int | None = None
    stride_h: int | None = None
    stride_w: int | None = None
    pad_u: int | None = None
    pad_l: int | None = None
    dilation_h: int | None = None
    dilation_w: int | None = None
    group: int | None = None
    temp_space: int | None = None
    row_order: str | None = None


def infer_outputs(arguments: DeconvGradFilter) -> Mapping[str, Tensor]:
    """The gradient implied by arguments without one: contiguous, without a buffer."""
    numbers = numbers_of(arguments)
    if arguments.dw_data is not None or arguments.x_data is None:
        return {}
    if any(numbers.get(name, 0) < 1 for name in _NEEDED):
        return {}
    return {"dw_data": Tensor(shape=weight_shape(numbers), dtype=arguments.x_data.dtype)}


def numbers_of(arguments: DeconvGradFilter) -> dict[str, int]:
    """The numbers by field, from param or from the fields; missing ones are left out."""
    if arguments.param is not None:
        return dict(zip(PARAM_FIELDS, arguments.param, strict=False))
    given = {name: getattr(arguments, name) for name in PARAM_FIELDS}
    fields = {name: number for name, number in given.items() if number is not None}
    return {**_DEFAULTS, **_sizes(arguments), **fields}


def weight_shape(numbers: Mapping[str, int]) -> tuple[int, int, int]:
    """Shape of dw_data; `group` divides the channels."""
    group = numbers["group"]
    rows = numbers["out_c"] // group * numbers["kernel_h"] * numbers["kernel_w"]
    return group, rows, numbers["in_c"] // group


def _sizes(arguments: DeconvGradFilter) -> dict[str, int]:
    """The sizes of the tensors that have four."""
    sizes: dict[str, int] = {}
    for tensor, names in ((arguments.x_data, X_SIZES), (arguments.dy_data, DY_SIZES)):
        if tensor is not None and tensor.rank == IMAGE_RANK:
            sizes.update(zip(names, tensor.shape, strict=True))
    return sizes
