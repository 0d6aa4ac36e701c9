"""Shapes of calls in one line of text: "b4 c64 o64 i56x56 k3 p1"."""

import re
from dataclasses import dataclass
from math import prod

_TOKEN = re.compile(r"([bcoikspdeg])(\d+(?:x\d+)*)|(t)")

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """A convolution for gradients; sizes have a number for each spatial dimension.

    Attributes:
        name: What tables call it.
        batch: Images; "b" in the text, as the other letters here.
        in_channels: Input channels of the forward operator: "c".
        out_channels: Output channels of the forward operator: "o".
        size: Size of an input image of the forward operator: "i".
        kernel: "k".
        stride: "s".
        padding: On both sides: "p".
        dilation: "d".
        output_padding: "e".
        groups: "g".
        transposed: "t".
    """

    name: str
    batch: int
    in_channels: int
    out_channels: int
    size: Sizes
    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    output_padding: Sizes
    groups: int
    transposed: bool

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.size)

    @property
    def output_size(self) -> Sizes:
        axes = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        if self.transposed:
            grown = [(i - 1) * s - 2 * p + d * (k - 1) + 1 for i, k, s, p, d in axes]
            return tuple(size + e for size, e in zip(grown, self.output_padding, strict=True))
        return tuple((i + 2 * p - d * (k - 1) - 1) // s + 1 for i, k, s, p, d in axes)

    @property
    def input_shape(self) -> Sizes:
        return (self.batch, self.in_channels, *self.size)

    @property
    def output_shape(self) -> Sizes:
        return (self.batch, self.out_channels, *self.output_size)

    @property
    def weight_shape(self) -> Sizes:
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        return (outer, inner // self.groups, *self.kernel)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one gradient, including those with padding."""
        positions = self.size if self.transposed else self.output_size
        channels = self.in_channels * self.out_channels // self.groups
        return 2 * self.batch * channels * prod(positions) * prod(self.kernel)

    @property
    def text(self) -> str:
        """The text that `convolution` parses."""
        axes = (
            ("k", self.kernel, 0),
            ("s", self.stride, 1),
            ("p", self.padding, 0),
            ("d", self.dilation, 1),
            ("e", self.output_padding, 0),
        )
        parts = [f"b{self.batch}", f"c{self.in_channels}", f"o{self.out_channels}"]
        parts.append(f"i{_joined(self.size)}")
        parts += [
            f"{letter}{values[0] if len(set(values)) == 1 else _joined(values)}"
            for letter, values, usual in axes
            if set(values) != {usual}
        ]
        if self.groups > 1:
            parts.append(f"g{self.groups}")
        return " ".join([*parts, "t"] if self.transposed else parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldShape:
    """Columns to fold to images, with the same parameters in height and width except the size.

    Attributes:
        name: What tables call it.
        batch: Images.
        channels: Channels of an image.
        size: Height and width of an image.
        kernel: Height and width of a block.
        stride: Steps between blocks.
        padding: Zeros around the image.
        dilation: Distance between elements of a block.
    """

    name: str
    batch: int
    channels: int
    size: tuple[int, int]
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def columns_shape(self) -> Sizes:
        reach = self.dilation * (self.kernel - 1) + 1
        positions = [(size + 2 * self.padding - reach) // self.stride + 1 for size in self.size]
        return (self.batch, self.channels * self.kernel**2, prod(positions))

    @property
    def image_shape(self) -> Sizes:
        return (self.batch, self.channels, *self.size)

    @property
    def size_bytes(self) -> int:
        """Bytes of columns and images in float32: the least number of bytes to move."""
        return 4 * (prod(self.columns_shape) + prod(self.image_shape))

    @property
    def text(self) -> str:
        numbers = f"b{self.batch} c{self.channels} i{_joined(self.size)} k{self.kernel}"
        return f"{numbers} s{self.stride} p{self.padding} d{self.dilation}"


def convolution(name: str, text: str) -> ConvolutionShape:
    """Parses a shape; the defaults are stride 1, dilation 1, padding 0 and one group."""
    found: dict[str, Sizes] = {}
    for token in text.split():
        match = _TOKEN.fullmatch(token)
        assert match, f"{name}: {token} in {text}"
        found[match[1] or match[3]] = tuple(map(int, match[2].split("x"))) if match[2] else ()
    size = found["i"]

    def by_axis(letter: str, usual: int) -> Sizes:
        values = found.get(letter, (usual,))
        return values * len(size) if len(values) == 1 else values

    return ConvolutionShape(
        name=name,
        batch=found["b"][0],
        in_channels=found["c"][0],
        out_channels=found["o"][0],
        size=size,
        kernel=by_axis("k", 1),
        stride=by_axis("s", 1),
        padding=by_axis("p", 0),
        dilation=by_axis("d", 1),
        output_padding=by_axis("e", 0),
        groups=found.get("g", (1,))[0],
        transposed="t" in found,
    )


def _joined(values: Sizes) -> str:
    return "x".join(map(str, values))
