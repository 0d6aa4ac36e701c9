"""The gradients of a convolution as every operator states them: what is where, what to compute."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import prod

from opserve_kernels.convolution import Convolution
from opserve_kernels.tensor import DataType
from opserve_kernels.views import Axis, View, view_of_axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor that a product reads or writes.

    The axes come in parts, each the axes of one index of the product: channels and positions of an
    image; groups, output channels, input channels and taps of a weight. Where a part holds fewer
    channels than the convolution has, in an image, the others are zero, and are not written.

    Attributes:
        place: Of the tensor among the schema's.
        dtype: Its element type.
        offset: Elements from the start of its buffer.
        parts: Axes by index of the product.
        number_format: What values are rounded to: operands after they are loaded, results before
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
        """The elements with the parts in an order of their own, as loops read them."""
        parts = [self.parts[index] for index in order] if order else self.parts
        return view_of_axes(self.dtype, self.offset, tuple(chain(*parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagonal:
    """Which entries of a weight gradient belong to a group, where several share a superblock.

    Entry (superblock s, output channel k, input channel c) belongs to group s*extend + j where
    j = k // output_channels = c // input_channels; it is zero where those differ or where there is
    no such group.

    Attributes:
        groups: Groups of channels.
        extend: Groups in a superblock.
        input_channels: Of one group.
        output_channels: Of one group.
    """

    groups: int
    extend: int
    input_channels: int
    output_channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSums:
    """result[channel] = sum of an image's positions.

    Attributes:
        image: What is summed: channels, positions.
        result: One value for each channel.
    """

    image: Operand
    result: Operand


class Product(StrEnum):
    """A gradient of Gradients, by what it is the gradient of."""

    IMAGE = "image"
    OUTPUT = "output"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """What to compute of the convolution Y[k] = sum over c, taps of W[k, c] * X[c].

    Attributes:
        convolution: The geometry.
        image: X; None where no result reads it, as for the next two.
        output: Y.
        weight: W.
        grad_image: X = scatter(W^T Y), if wanted.
        grad_output: Y = W columns(X), if wanted: the input gradient of a transposed convolution.
        grad_weight: W = Y columns(X)^T, if wanted.
        diagonal: Which entries of grad_weight are kept; None means all.
        sums: Sums over positions, if wanted.
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

    @property
    def products(self) -> tuple[Product, ...]:
        """The gradients that are wanted."""
        wanted = {
            Product.IMAGE: self.grad_image,
            Product.OUTPUT: self.grad_output,
            Product.WEIGHT: self.grad_weight,
        }
        return tuple(product for product, result in wanted.items() if result)
