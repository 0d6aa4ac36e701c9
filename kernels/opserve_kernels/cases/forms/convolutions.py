"""Shapes of convolutions for the forms of their operators, in one, two and three dimensions."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, row

SIZES: tuple[Row, ...] = ((11,), (9, 8), (5, 6, 7))
KERNELS: tuple[Row, ...] = ((3,), (3, 2), (2, 3, 2))
STRIDES: Row = (2, 3, 2)
PADDING: Row = (1, 2, 1)
DILATION: Row = (2, 3, 2)
_SPREAD, _KERNEL = (40, 12, 5), (9, 5, 3)  # sizes and taps of a drawn call, at most, by dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """A convolution; every row has an entry for each spatial dimension.

    Attributes:
        input: N, C, spatial sizes.
        weight: K, C/groups, taps; transposed: C, K/groups, taps.
        stride: Empty means ones.
        padding: Empty means zeros; in 2-D four entries, too: up, down, left, right.
        dilation: Empty means ones.
        output_padding: Empty means zeros.
        groups: Groups of channels.
        transposed: Whether the convolution is a transposed one.
    """

    input: Row
    weight: Row
    stride: Row = ()
    padding: Row = ()
    dilation: Row = ()
    output_padding: Row = ()
    groups: int = 1
    transposed: bool = False

    @property
    def members(self) -> dict[str, Any]:
        """The members, which the call of an operator has too."""
        return {member.name: getattr(self, member.name) for member in fields(self)}


def plain_shape(axes: int, channels: int = 4, outputs: int = 6) -> ConvolutionShape:
    """A shape with stride 1, without padding."""
    sizes, kernel = SIZES[axes - 1], KERNELS[axes - 1]
    return ConvolutionShape(input=(2, channels, *sizes), weight=(outputs, channels, *kernel))


def plain_shapes(axes: int) -> Mapping[str, ConvolutionShape]:
    """Shapes that are not transposed, simple ones first."""
    call, kernel, size = plain_shape(axes), KERNELS[axes - 1], SIZES[axes - 1]
    stride, padding, dilation = STRIDES[:axes], PADDING[:axes], DILATION[:axes]
    grouped, depthwise = (6, 2, *kernel), (4, 1, *kernel)
    return {
        "plain": call,
        "stride": replace(call, stride=stride),
        "padding": replace(call, padding=padding),
        "dilation": replace(call, dilation=dilation, padding=dilation),
        "groups": replace(call, weight=grouped, groups=2),
        "depthwise": replace(call, weight=depthwise, groups=4, padding=padding),
        "depthwise with a multiplier": replace(call, weight=(8, 1, *kernel), groups=4),
        "kernel of 1": replace(call, weight=(6, 4, *(1,) * axes)),
        "kernel of 1 with a stride": replace(call, weight=(6, 4, *(1,) * axes), stride=stride),
        "kernel as large as the image": replace(call, weight=(3, 4, *size)),
        "stride beyond the kernel": replace(call, weight=(3, 4, *(1,) * axes), stride=(3,) * axes),
        "padding beyond the kernel": replace(call, padding=tuple(tap + 1 for tap in kernel)),
        "one of everything": replace(call, input=(1,) * (axes + 2), weight=(1,) * (axes + 2)),
        "all of them": all_of_them(axes),
    }


def all_of_them(axes: int) -> ConvolutionShape:
    """A shape with stride, padding, dilation and groups."""
    size = tuple(size + 3 for size in SIZES[axes - 1])
    return ConvolutionShape(
        input=(3, 6, *size),
        weight=(4, 3, *KERNELS[axes - 1]),
        stride=STRIDES[:axes],
        padding=PADDING[:axes],
        dilation=DILATION[:axes],
        groups=2,
    )


def transposed_shapes(axes: int) -> Mapping[str, ConvolutionShape]:
    """Transposed shapes."""
    size, kernel = tuple(size // 2 + 1 for size in SIZES[axes - 1]), KERNELS[axes - 1]
    call = ConvolutionShape(input=(2, 4, *size), weight=(4, 5, *kernel), transposed=True)
    stride, padding, dilation = STRIDES[:axes], PADDING[:axes], DILATION[:axes]
    extra = tuple(step - 1 for step in stride)
    grouped = replace(call, weight=(4, 3, *kernel), groups=2)
    return {
        "plain": call,
        "stride": replace(call, stride=stride),
        "padding": replace(call, padding=(1,) * axes, stride=stride),
        "dilation": replace(call, dilation=dilation),
        "output padding": replace(call, stride=stride, output_padding=extra),
        "groups": replace(grouped, stride=stride),
        "depthwise": replace(call, weight=(4, 1, *kernel), groups=4, stride=stride),
        "all of them": replace(
            grouped, stride=stride, padding=padding, dilation=dilation, output_padding=extra
        ),
    }


def plane_shapes() -> Mapping[str, ConvolutionShape]:
    """Shapes for special cases of 2-D kernels: sides, tails, and sizes of fast algorithms."""
    sides = replace(plain_shape(2), padding=(0, 2, 1, 0), stride=(2, 1))
    return {
        "padding that differs by side": sides,
        "padding that differs by side, transposed": ConvolutionShape(
            input=(2, 4, 5, 4),
            weight=(4, 3, 3, 4),
            padding=(0, 1, 2, 0),
            stride=(2, 3),
            transposed=True,
        ),
        "tails of channels": square_shape((2, 17, 7, 7), 33, 3, padding=(1, 1)),
        "few channels": square_shape((2, 3, 20, 20), 16, 7, padding=(3, 3), stride=(2, 2)),
        "3 x 3 of many channels": square_shape((2, 32, 14, 14), 32, 3, padding=(1, 1)),
        "3 x 3 dilated": square_shape((1, 24, 16, 16), 24, 3, padding=(2, 2), dilation=(2, 2)),
        "5 x 5": square_shape((2, 16, 12, 12), 24, 5, padding=(2, 2)),
        "1 x 1 of many channels": square_shape((4, 64, 7, 7), 96, 1),
        "a wide image": square_shape((1, 2, 3, 300), 3, 3, padding=(1, 1)),
        "a large batch": square_shape((70, 3, 5, 5), 4, 3),
        "one row": ConvolutionShape(input=(2, 5, 1, 40), weight=(7, 5, 1, 3), padding=(0, 1)),
        "one column": ConvolutionShape(input=(2, 5, 40, 1), weight=(7, 5, 3, 1), padding=(1, 0)),
        "depthwise of many channels": ConvolutionShape(
            input=(2, 70, 14, 14), weight=(70, 1, 3, 3), padding=(1, 1), groups=70
        ),
        "groups of many channels": ConvolutionShape(
            input=(2, 64, 10, 10), weight=(64, 8, 3, 3), padding=(1, 1), groups=8
        ),
    }


def drawn_shape(numbers: Numbers) -> ConvolutionShape:
    """A call of any rank, transposed or not."""
    axes, transposed = between(numbers, 1, 3), between(numbers, 0, 2) == 0
    kernel = row(numbers, axes, 1, _KERNEL[axes - 1])
    stride, dilation = row(numbers, axes, 1, 3), row(numbers, axes, 1, 2)
    dilated_kernel = tuple(
        step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)
    )
    sides = -1 if transposed else 1  # more would leave nothing of a transposed one's output
    padding = tuple(between(numbers, 0, (span + sides) // 2) for span in dilated_kernel)
    groups, inner, outer = (between(numbers, 1, most) for most in (3, CHANNELS, CHANNELS))
    spread = row(numbers, axes, 0, _SPREAD[axes - 1])
    size = tuple(span + more for span, more in zip(dilated_kernel, spread, strict=True))
    extra = tuple(between(numbers, 0, step - 1) for step in stride)
    first, second = (inner, outer) if transposed else (outer, inner)
    return ConvolutionShape(
        input=(between(numbers, 1, 4), groups * inner, *size),
        weight=(groups * first, second, *kernel),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
        output_padding=extra if transposed else (),
    )


def square_shape(input_: Row, outputs: int, kernel: int, **steps: Row) -> ConvolutionShape:
    """A 2-D shape with a square kernel."""
    weight = (outputs, input_[1], kernel, kernel)
    return ConvolutionShape(input=input_, weight=weight, **steps)  # type: ignore[arg-type]  # rows
