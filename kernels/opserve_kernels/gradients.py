"""The gradients of a convolution, as every operator states them: operands and results."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import prod

from opserve_kernels.convolution import Convolution
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.tensor import DataType
from opserve_kernels.views import Axis, View, view_of_axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor that a product reads or writes.

    The axes are in parts, one for each index of the product: channels and positions of an image;
    groups, output channels, input channels and taps of a weight. Where an image has fewer channels
    than the convolution, the missing channels are zeros, and are not written.

    Attributes:
        place: Place of the tensor among the schema's.
        dtype: Its element type.
        offset: Elements from the start of its buffer.
        parts: Axes by index of the product.
        number_format: Format that values are rounded to: operands once loaded, results before
            they are converted to their dtype.
    """

    place: int
    dtype: DataType
    offset: int = 0
    parts: tuple[tuple[Axis, ...], ...]
    number_format: int

    @property
    def count(self) -> int:
        """Elements."""
        return prod(size for size, _ in chain(*self.parts))

    def view(self, *order: int) -> View:
        """The elements as loops read them, with the parts in the given order."""
        parts = [self.parts[index] for index in order] if order else self.parts
        return view_of_axes(self.dtype, self.offset, tuple(chain(*parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagonal:
    """Entries of a weight gradient that belong to a group, where groups share a superblock.

    Entry (superblock s, output channel k, input channel c) belongs to group s*extend + j where
    j = k // output_channels = c // input_channels; it is zero where those differ or where there is
    no such group.

    Attributes:
        groups: Groups of channels.
        extend: Groups in a superblock.
        input_channels: Input channels of one group.
        output_channels: Output channels of one group.
    """

    groups: int
    extend: int
    input_channels: int
    output_channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSums:
    """result[channel] = sum of an image's positions.

    Attributes:
        image: The image: channels, positions.
        result: One value for each channel.
    """

    image: Operand
    result: Operand


class Product(StrEnum):
    """A gradient of Gradients, named by its operand."""

    IMAGE = "image"
    OUTPUT = "output"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The gradients to compute of the convolution Y[k] = sum over c, taps of W[k, c] * X[c].

    Attributes:
        convolution: The geometry.
        image: X; None if no result reads it, as for the next two.
        output: Y.
        weight: W.
        grad_image: X = scatter(W^T Y), or None.
        grad_output: Y = W columns(X), or None: the input gradient of a transposed convolution.
        grad_weight: W = Y columns(X)^T, or None.
        diagonal: Entries of grad_weight that are kept; None means all.
        sums: Sums over positions, or None.
        bias: A value for each channel of grad_image or grad_output, added to all positions; or
            None.
        unbiased_format: Format that products are rounded to before the bias is added.
    """

    convolution: Convolution
    image: Operand | None = None
    output: Operand | None = None
    weight: Operand | None = None
    grad_image: Operand | None = None
    grad_output: Operand | None = None
    grad_weight: Operand | None = None
    diagonal: Diagonal | None = None
    sums: ChannelSums | None = None
    bias: Operand | None = None
    unbiased_format: int = FLOAT

    @property
    def products(self) -> tuple[Product, ...]:
        """The gradients to compute."""
        wanted = {
            Product.IMAGE: self.grad_image,
            Product.OUTPUT: self.grad_output,
            Product.WEIGHT: self.grad_weight,
        }
        return tuple(product for product, result in wanted.items() if result)
