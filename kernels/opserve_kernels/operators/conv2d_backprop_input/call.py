"""The complete arguments of conv2d_backprop_input, and the values that follow from them."""

from dataclasses import dataclass

from opserve_kernels.formats import Superblocks, superblocks
from opserve_kernels.operators.conv2d_backprop_input.schema import GroupDict
from opserve_kernels.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call, with the vendor's defaults."""

    filters: Tensor
    out_backprop: Tensor
    filter_sizes: tuple[int, ...]
    input_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    res_dtype: str
    offset_x: int
    offset_w: int | None
    group_dict: GroupDict | None
    res_tensor: Tensor | None

    @property
    def groups(self) -> int | None:
        """Groups of channels; None if a group_dict lacks them."""
        return 1 if self.group_dict is None else self.group_dict.groups

    @property
    def blocks(self) -> Superblocks:
        """The layout of the groups in filters; channels and groups must have been checked."""
        assert self.groups is not None
        return superblocks((*self.filter_sizes[:2], 1, 1), self.groups)

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.filter_sizes[2] * self.filter_sizes[3]

    @property
    def dilated_kernel(self) -> tuple[int, int]:
        """Height and width of the dilated kernel."""
        high, wide = self.filter_sizes[2:]
        return (high - 1) * self.dilations[2] + 1, (wide - 1) * self.dilations[3] + 1

    @property
    def has_one_row(self) -> bool:
        """Whether padded image, dilated kernel and out_backprop have one row."""
        padded = self.input_sizes[2] + self.padding[0] + self.padding[1]
        return padded == self.dilated_kernel[0] == self.out_backprop.shape[2] == 1
