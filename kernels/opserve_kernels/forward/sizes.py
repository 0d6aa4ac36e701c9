"""The steps of a forward convolution, and the output that follows: all that a schema needs."""

from dataclasses import dataclass

from opserve_kernels.convolution import output_size, sides_of, transposed_size
from opserve_kernels.number_formats import FLOATING_TYPES, promote
from opserve_kernels.tensor import DataType, Format, Tensor, permuted

RANK_1D, RANK_2D, RANK_3D = 3, 4, 5  # dimensions of tensors: N, C and the spatial ones
_DTYPES = {*FLOATING_TYPES, DataType.DOUBLE}
Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The arguments of a convolution that are no tensors.

    Attributes:
        stride: Steps of the kernel, one for each spatial dimension.
        padding: One value for each spatial dimension, or two: before and after.
        dilation: Distances of taps, one for each spatial dimension.
        transposed: Whether the convolution is a transposed one.
        output_padding: Extra output size of a transposed one, one for each spatial dimension.
        groups: Groups of channels.
    """

    stride: Row
    padding: Row
    dilation: Row
    transposed: bool = False
    output_padding: Row = ()
    groups: int = 1

    @property
    def axes(self) -> int:
        """Spatial dimensions."""
        return len(self.stride)

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after the image, by spatial dimension."""
        return sides_of(self.padding, self.axes)

    def channels(self, weight: Row) -> int:
        """Channels of the output."""
        return weight[1] * self.groups if self.transposed else weight[0]

    def output_sizes(self, input_: Row, weight: Row) -> Row:
        """Shape of the output; sizes below 1 where the padded input has no place for the kernel.

        Args:
            input_: (N, C, spatial sizes).
            weight: (K, C/groups, taps); transposed: (C, K/groups, taps).
        """
        sizes = (self._size(axis, input_[2 + axis], weight[2 + axis]) for axis in range(self.axes))
        return (input_[0], self.channels(weight), *sizes)

    def _size(self, axis: int, size: int, kernel: int) -> int:
        stride, dilation = self.stride[axis], self.dilation[axis]
        steps = {"stride": stride, "padding": sum(self.sides[axis]), "dilation": dilation}
        if self.transposed:
            extra = self.output_padding[axis]
            return transposed_size(size, kernel=kernel, extra=extra, **steps)
        return output_size(size, kernel=kernel, **steps)


def channels_first(tensor: Tensor) -> Tensor:
    """A tensor in NDHWC as the same one in NCDHW; any other as it is."""
    if tensor.format is not Format.NDHWC or tensor.rank != RANK_3D:
        return tensor
    return permuted(tensor, (0, 4, 1, 2, 3), Format.NCDHW)


def implied_output(input_: Tensor, weight: Tensor, steps: Steps) -> Tensor:
    """The output of a call without one: contiguous, in input's format.

    Arguments that break a rule imply some output too, so that the rule rejects the call.
    """
    known = {input_.dtype, weight.dtype} <= _DTYPES
    dtype = promote(input_.dtype, weight.dtype) if known else input_.dtype
    plain, taps = channels_first(input_).shape, channels_first(weight).shape
    lengths = {len(plain), len(taps), *(2 + len(row) for row in (steps.stride, steps.dilation))}
    axes = len(plain) - 2
    if steps.transposed:
        lengths.add(2 + len(steps.output_padding))
    uneven = len(lengths) > 1 or len(steps.padding) not in {axes, 2 * axes}
    if axes < 1 or uneven or min(steps.stride) < 1:
        return Tensor(shape=input_.shape, dtype=dtype, format=input_.format)
    sizes = tuple(max(size, 0) for size in steps.output_sizes(plain, taps))
    if input_.format is Format.NDHWC and len(sizes) == RANK_3D:
        sizes = (sizes[0], *sizes[2:], sizes[1])
    return Tensor(shape=sizes, dtype=dtype, format=input_.format)
