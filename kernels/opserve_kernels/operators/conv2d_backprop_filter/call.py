"""The complete arguments of conv2d_backprop_filter, and the values that follow from them."""

from dataclasses import dataclass

from opserve_kernels.formats import Superblocks, superblocks
from opserve_kernels.tensor import Tensor

ONE_BY_ONE, ONES, ZEROS = (1, 1), (1, 1, 1, 1), (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call, with the vendor's defaults."""

    input_x: Tensor
    out_backprop: Tensor
    filter_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    res_dtype: str
    raw: bool
    res_tensor: Tensor | None

    @property
    def blocks(self) -> Superblocks:
        """The layout of the groups in res_tensor; the arguments must have been checked."""
        return superblocks(self.filter_sizes, self.groups)

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.filter_sizes[2] * self.filter_sizes[3]

    @property
    def has_one_row(self) -> bool:
        """Whether everything is 1 in height: the vendor's conv1d."""
        padded = self.input_x.shape[2] + self.padding[0] + self.padding[1]
        return padded == self.filter_sizes[2] == self.strides[0] == self.dilations[2] == 1
