"""The arguments of deconv_grad_filter as numbers, wherever they were given, and what follows."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.operators.deconv_grad_filter.contract import DY_SIZES, X_SIZES
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.tensor import Tensor

PARAM_FIELDS = (
    *X_SIZES,
    *DY_SIZES,
    *("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_u", "pad_l"),
    *("dilation_h", "dilation_w", "group", "temp_space"),
)
"""The fields that param holds, in its order."""
OC_KH_KW = "oc_kh_kw"
ROW_ORDERS = (OC_KH_KW, "kh_kw_oc")
IMAGE_RANK = 4
_DEFAULTS: Mapping[str, int] = {
    **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "group"), 1),
    **dict.fromkeys(("pad_u", "pad_l", "temp_space"), 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call, none of them missing; the numbers as in the schema."""

    dy_data: Tensor
    x_data: Tensor
    dw_data: Tensor
    input_batch: int
    in_h: int
    in_w: int
    in_c: int
    batch: int
    out_h: int
    out_w: int
    out_c: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_u: int
    pad_l: int
    dilation_h: int
    dilation_w: int
    group: int
    temp_space: int
    row_order: str

    @property
    def in_channels(self) -> int:
        """Channels of x_data in one group."""
        return self.in_c // self.group

    @property
    def out_channels(self) -> int:
        """Channels of dy_data in one group."""
        return self.out_c // self.group

    @property
    def temp_space_bytes(self) -> int:
        """What temp_space must hold: the rows of one entry of the batch and one group."""
        rows = self.kernel_h * self.kernel_w * self.out_channels
        return rows * self.in_h * self.in_w * self.dy_data.dtype.size_bytes


def numbers_of(arguments: DeconvGradFilter) -> dict[str, int]:
    """The numbers by field, from param or from the fields; those that are nowhere are left out."""
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
    """The sizes that the tensors have, where they have four."""
    sizes: dict[str, int] = {}
    for tensor, names in ((arguments.x_data, X_SIZES), (arguments.dy_data, DY_SIZES)):
        if tensor is not None and tensor.rank == IMAGE_RANK:
            sizes.update(zip(names, tensor.shape, strict=True))
    return sizes
