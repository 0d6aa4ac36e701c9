"""The geometry of a convolution, in three spatial dimensions for tensors of any rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opserve_kernels.errors import check_extent

Triple = tuple[int, int, int]
SPATIAL_RANK = 3
DEPTH, HEIGHT, WIDTH = range(SPATIAL_RANK)
"""Axes."""

_MOST_TAPS = 32  # taps of an axis that are sampled, evenly spread


class Geometry(NamedTuple):
    """A record of the geometry (opserve_kernels.records) with the fields of Convolution."""

    batch: int
    input_channels: int
    output_channels: int
    taps: int
    input_pixels: int
    output_pixels: int
    input_size: Triple
    output_size: Triple
    kernel_size: Triple
    stride: Triple
    padding: Triple
    dilation: Triple


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """The forward convolution Y[k] = sum over c and taps of W[k, c] * X[c], group by group.

    Sizes of missing dimensions are 1. Padding after the image follows from the output's size.

    Attributes:
        batch: Entries N.
        groups: Groups of channels.
        input_channels: C/groups, the channels of X in one group.
        output_channels: K/groups, the channels of Y in one group.
        input_size: Spatial size of X.
        output_size: Spatial size of Y.
        kernel_size: Taps of W.
        stride: Steps of the kernel.
        padding: Padding before the image.
        dilation: Distance of taps.
    """

    batch: int
    groups: int
    input_channels: int
    output_channels: int
    input_size: Triple
    output_size: Triple
    kernel_size: Triple
    stride: Triple
    padding: Triple
    dilation: Triple

    def __post_init__(self) -> None:
        """Rejects positions that 64 bits cannot hold (207001)."""
        for axis in range(SPATIAL_RANK):
            check_positions(
                size=self.input_size[axis],
                places=self.output_size[axis],
                kernel=self.kernel_size[axis],
                stride=self.stride[axis],
                padding=self.padding[axis],
                dilation=self.dilation[axis],
            )

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return _volume(self.kernel_size)

    @property
    def input_pixels(self) -> int:
        """Positions of X over the whole batch."""
        return self.batch * _volume(self.input_size)

    @property
    def output_pixels(self) -> int:
        """Positions of Y over the whole batch."""
        return self.batch * _volume(self.output_size)

    @property
    def column_rows(self) -> int:
        """Rows of the matrix of columns: every tap of every channel of a group."""
        return self.input_channels * self.taps

    @property
    def image_elements(self) -> int:
        """Elements of X."""
        return self.groups * self.input_channels * self.input_pixels

    @property
    def output_elements(self) -> int:
        """Elements of Y."""
        return self.groups * self.output_channels * self.output_pixels

    @property
    def weight_elements(self) -> int:
        """Elements of W."""
        return self.groups * self.output_channels * self.column_rows

    def tap_positions(self, axis: int, tap: int) -> int:
        """Positions of Y along an axis at which a tap reads the image."""
        begin, stride = tap * self.dilation[axis] - self.padding[axis], self.stride[axis]
        first, last = -(begin // stride), -((begin - self.input_size[axis]) // stride)
        return max(0, min(self.output_size[axis], last) - max(0, first))

    def most_tap_positions(self, axis: int) -> int:
        """The greatest `tap_positions` of any tap along an axis.

        Most positions meet a tap that begins at the image's edge or before it. Taps that begin a
        stride earlier meet no more positions.
        """
        at_image = -(-self.padding[axis] // self.dilation[axis])
        nearest = min(at_image, self.kernel_size[axis] - 1)
        earlier = range(max(0, nearest - self.stride[axis]), nearest + 1)
        return max(self.tap_positions(axis, tap) for tap in earlier)

    @property
    def met_share(self) -> float:
        """Share of the pairs of output position and tap at which the tap is in the image.

        It is that of a sample of the taps, whose number may be as large as an image.
        """
        share = 1.0
        for axis in range(SPATIAL_RANK):
            taps, positions = self.kernel_size[axis], self.output_size[axis]
            looked_at = range(0, taps, -(-taps // _MOST_TAPS))
            met = sum(self.tap_positions(axis, tap) for tap in looked_at)
            share *= met / (len(looked_at) * positions)
        return share

    @property
    def geometry(self) -> Geometry:
        """The geometry as loops read it."""
        return Geometry(
            batch=self.batch,
            input_channels=self.input_channels,
            output_channels=self.output_channels,
            taps=self.taps,
            input_pixels=self.input_pixels,
            output_pixels=self.output_pixels,
            input_size=self.input_size,
            output_size=self.output_size,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
        )


def output_size(size: int, *, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Number of kernel positions: (size + padding - dilation*(kernel-1) - 1) // stride + 1.

    Args:
        size: Size of the image.
        kernel: Taps.
        stride: Step of the kernel.
        padding: Sum of the padding on both sides.
        dilation: Distance of taps.
    """
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


def transposed_size(
    size: int, *, kernel: int, stride: int, padding: int, dilation: int, extra: int
) -> int:
    """Size of a transposed convolution's output; below 1 if padding leaves nothing of it.

    Args:
        size: Size of the input.
        kernel: Taps.
        stride: Step of the kernel.
        padding: Sum of the padding on both sides.
        dilation: Distance of taps.
        extra: Output padding.
    """
    return (size - 1) * stride - padding + dilation * (kernel - 1) + 1 + extra


def sides_of(padding: Sequence[int], axes: int) -> tuple[tuple[int, int], ...]:
    """Padding before and after the image, by spatial dimension.

    Args:
        padding: One value for each dimension, or two.
        axes: Spatial dimensions.
    """
    if len(padding) == 2 * axes:
        return tuple(zip(padding[::2], padding[1::2], strict=True))
    return tuple((side, side) for side in padding)


def three(values: Sequence[int], filler: int) -> Triple:
    """Values of one to three spatial dimensions as three: missing ones come first."""
    first, second, third = (filler,) * (SPATIAL_RANK - len(values)) + tuple(values)
    return first, second, third


def check_positions(
    *, size: int, places: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    """Rejects an axis along which a tap may have a position beyond 64 bits (207001).

    Args:
        size: Size of the image.
        places: Positions of the kernel.
        kernel: Taps.
        stride: Step of the kernel.
        padding: Padding before the image.
        dilation: Distance of taps.
    """
    check_extent(size + places * stride + kernel * dilation + padding)


def _volume(sizes: Triple) -> int:
    return sizes[0] * sizes[1] * sizes[2]
