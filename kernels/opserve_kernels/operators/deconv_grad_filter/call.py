"""The complete arguments of deconv_grad_filter, and the values that follow from them."""

from dataclasses import dataclass

from opserve_kernels.tensor import Tensor

OC_KH_KW = "oc_kh_kw"
ROW_ORDERS = (OC_KH_KW, "kh_kw_oc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The complete arguments of a call; the numbers as in the schema."""

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
        """Bytes that temp_space must have: the rows of one entry of the batch and one group."""
        rows = self.kernel_h * self.kernel_w * self.out_channels
        return rows * self.in_h * self.in_w * self.dy_data.dtype.size_bytes
