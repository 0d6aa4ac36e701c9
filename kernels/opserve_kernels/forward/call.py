"""The complete arguments of a forward convolution, and the values that follow from them."""

from dataclasses import dataclass

from opserve_kernels.cube_math import Computation, computation_of
from opserve_kernels.forward.sizes import Steps
from opserve_kernels.number_formats import promote
from opserve_kernels.tensor import DataType, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a call; images are (N, C, spatial sizes), in any order in memory.

    Attributes:
        input: The convolution's input.
        weight: (Cout, Cin/groups, taps); transposed: (Cin, Cout/groups, taps).
        bias: A value for each channel of the output, or None.
        output: The convolution's output.
        steps: The arguments that are no tensors.
        cube_math_type: 0 to 4.
        input_name: The parameter that errors name for the input.
        output_name: The parameter that errors name for the output.
        has_channels_last: Whether an image or the weight was given in NDHWC.
    """

    input: Tensor
    weight: Tensor
    bias: Tensor | None
    output: Tensor
    steps: Steps
    cube_math_type: int
    input_name: str = "input"
    output_name: str = "output"
    has_channels_last: bool = False

    @property
    def promoted(self) -> DataType:
        """The dtype that holds input and weight; the bias makes no difference."""
        return promote(self.input.dtype, self.weight.dtype)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return 0 in {tensor.element_count for tensor in (self.input, self.weight, self.output)}

    @property
    def is_matrix_product(self) -> bool:
        """Whether a kernel as large as the input makes the vendor's source multiply matrices.

        It does so on A2, and only the order N, C, spatial sizes; no tiling limits such a call.
        """
        steps = self.steps
        return (
            not steps.transposed
            and not self.has_channels_last
            and steps.groups == 1
            and not any(steps.padding)
            and set(steps.dilation) == {1}
            and self.weight.shape[2:] == self.input.shape[2:]
        )

    def computation(self, profile: str) -> Computation | None:
        """The computation of the call on a profile; None if the profile does not support it."""
        return computation_of(profile, self.promoted, self.cube_math_type)
