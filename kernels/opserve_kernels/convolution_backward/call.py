"""The arguments of aclnnConvolutionBackward once none is missing, and what follows from them."""

from dataclasses import dataclass

from opserve_kernels.number_formats import promote
from opserve_kernels.tensor import DataType, Tensor

RANK_1D, RANK_2D, RANK_3D = 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call; gradients are given where the mask asks for them, at least."""

    grad_output: Tensor
    input: Tensor
    weight: Tensor
    bias_sizes: tuple[int, ...] | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    output_mask: tuple[bool, ...]
    cube_math_type: int
    grad_input: Tensor | None
    grad_weight: Tensor | None
    grad_bias: Tensor | None

    @property
    def image(self) -> tuple[str, Tensor]:
        """Name and tensor of the image that weight's convolution reads."""
        return ("grad_output", self.grad_output) if self.transposed else ("input", self.input)

    @property
    def output(self) -> tuple[str, Tensor]:
        """Name and tensor of what weight's convolution writes."""
        return ("input", self.input) if self.transposed else ("grad_output", self.grad_output)

    @property
    def promoted(self) -> DataType:
        """The dtype that holds the three inputs."""
        return promote(promote(self.grad_output.dtype, self.input.dtype), self.weight.dtype)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to sum."""
        return 0 in {self.input.element_count, self.weight.element_count}

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after the image, by spatial dimension."""
        if self.input.rank == RANK_2D and len(self.padding) == RANK_2D:
            up, down, left, right = self.padding
            return ((up, down), (left, right))
        return tuple((side, side) for side in self.padding)
