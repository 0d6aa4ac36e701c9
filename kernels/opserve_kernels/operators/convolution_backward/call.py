"""The complete arguments of aclnnConvolutionBackward, and the values that follow from them."""

from collections.abc import Iterator
from dataclasses import dataclass

from opserve_kernels.cube_math import promoted
from opserve_kernels.operators.convolution_backward.contract import RANK_2D
from opserve_kernels.tensor import DataType, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call, with all gradients that the mask selects."""

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
    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every given tensor by name, masked or not, in the order of the checks."""
        tensors = (
            ("grad_output", self.grad_output),
            ("input", self.input),
            ("weight", self.weight),
            ("grad_input", self.grad_input),
            ("grad_weight", self.grad_weight),
            ("grad_bias", self.grad_bias),
        )
        return ((name, tensor) for name, tensor in tensors if tensor is not None)

    @property
    def image(self) -> tuple[str, Tensor]:
        """Name and tensor of the image that weight's convolution reads."""
        return ("grad_output", self.grad_output) if self.transposed else ("input", self.input)

    @property
    def output(self) -> tuple[str, Tensor]:
        """Name and tensor of the output of weight's convolution."""
        return ("input", self.input) if self.transposed else ("grad_output", self.grad_output)

    @property
    def channels(self) -> int:
        """The channels that weight and groups give to the convolution's result."""
        return self.weight.shape[1] * self.groups if self.transposed else self.weight.shape[0]

    @property
    def promoted(self) -> DataType:
        """The dtype that holds the three inputs."""
        return promoted(self.grad_output.dtype, self.input.dtype, self.weight.dtype)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to sum."""
        return 0 in {self.input.element_count, self.weight.element_count}

    @property
    def extra(self) -> tuple[int, ...]:
        """Output padding by spatial dimension; four values are by side, as for padding."""
        if self.input.rank == RANK_2D and len(self.output_padding) == RANK_2D:
            up, down, left, right = self.output_padding
            return (up + down, left + right)
        return self.output_padding

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after the image, by spatial dimension."""
        if self.input.rank == RANK_2D and len(self.padding) == RANK_2D:
            up, down, left, right = self.padding
            return ((up, down), (left, right))
        return tuple((side, side) for side in self.padding)
