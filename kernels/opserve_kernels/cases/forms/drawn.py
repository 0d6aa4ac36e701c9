"""Forms drawn by a seed: shapes that nobody thought of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from opserve_kernels.cases.block_calls import BlockCall, DeconvolutionCall
from opserve_kernels.cases.calls import ConvolutionCall, FoldCall, Row
from opserve_kernels.cases.fill import key_of, words
from opserve_kernels.cases.forms.form import Form

Choice = TypeVar("Choice")
Numbers = Iterator[int]

_NUMBERS = 64  # that a form takes at most
_NAME = "drawn"
_CHANNELS, _SPREAD, _KERNEL = 12, (40, 12, 5), (9, 5, 3)  # at most; the others by dimensions


def drawn_forms(operator: str, count: int, seed: int) -> Iterator[Form]:
    """So many forms of an operator; more of them begin with the same ones."""
    for place in range(count):
        key = key_of(f"{operator} {place}", seed, _NAME)
        yield Form(name=_NAME, call=_DRAWN[operator](iter(words(key, 0, _NUMBERS).tolist())))


def _one_of(numbers: Numbers, choices: Sequence[Choice]) -> Choice:
    return choices[next(numbers) % len(choices)]


def _between(numbers: Numbers, least: int, most: int) -> int:
    return _one_of(numbers, range(least, most + 1))


def _row(numbers: Numbers, axes: int, least: int, most: int) -> Row:
    return tuple(_between(numbers, least, most) for _ in range(axes))


def _convolution(numbers: Numbers) -> ConvolutionCall:
    axes, transposed = _between(numbers, 1, 3), _between(numbers, 0, 2) == 0
    kernel = _row(numbers, axes, 1, _KERNEL[axes - 1])
    stride, dilation = _row(numbers, axes, 1, 3), _row(numbers, axes, 1, 2)
    reach = tuple(step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True))
    sides = -1 if transposed else 1  # more would leave nothing of a transposed one's output
    padding = tuple(_between(numbers, 0, (span + sides) // 2) for span in reach)
    groups, inner, outer = (_between(numbers, 1, most) for most in (3, _CHANNELS, _CHANNELS))
    spread = _row(numbers, axes, 0, _SPREAD[axes - 1])
    size = tuple(span + more for span, more in zip(reach, spread, strict=True))
    extra = tuple(_between(numbers, 0, step - 1) for step in stride)
    first, second = (inner, outer) if transposed else (outer, inner)
    return ConvolutionCall(
        input=(_between(numbers, 1, 4), groups * inner, *size),
        weight=(groups * first, second, *kernel),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
        output_padding=extra if transposed else (),
    )


def _fold(numbers: Numbers) -> FoldCall:
    kernel, dilation = _row(numbers, 2, 1, 5), _row(numbers, 2, 1, 3)
    reach = tuple(step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True))
    size = tuple(span + _between(numbers, 0, 20) for span in reach)
    batch = _row(numbers, _between(numbers, 0, 1), 1, 4)
    return FoldCall(
        out=(*batch, _between(numbers, 1, _CHANNELS), *size),
        kernel=kernel,
        stride=_row(numbers, 2, 1, 4),
        padding=_row(numbers, 2, 0, 3),
        dilation=dilation,
    )


def _blocks(numbers: Numbers) -> BlockCall:
    groups = _one_of(numbers, (None, 1, 2, 3, 8))
    kernel, dilations = _row(numbers, 2, 1, 4), _row(numbers, 2, 1, 2)
    reach = tuple(step * (taps - 1) + 1 for step, taps in zip(dilations, kernel, strict=True))
    size = tuple(span + _between(numbers, 0, 8) for span in reach)
    inner, outer = _between(numbers, 1, 2 * _CHANNELS), _between(numbers, 1, 2 * _CHANNELS)
    return BlockCall(
        image=(_between(numbers, 1, 3), (groups or 1) * inner, *size),
        weight=((groups or 1) * outer, inner, *kernel),
        strides=_row(numbers, 2, 1, 3),
        padding=_row(numbers, 4, 0, 2),
        dilations=dilations,
        groups=groups,
    )


def _deconvolution(numbers: Numbers) -> DeconvolutionCall:
    """Any output size is right."""
    group, batch = _between(numbers, 1, 3), _between(numbers, 1, 4)
    inner, outer = _between(numbers, 1, _CHANNELS), _between(numbers, 1, _CHANNELS)
    return DeconvolutionCall(
        x=(batch, *_row(numbers, 2, 1, 9), group * inner),
        dy=(batch, *_row(numbers, 2, 1, 15), group * outer),
        kernel=_row(numbers, 2, 1, 5),
        stride=_row(numbers, 2, 1, 3),
        padding=_row(numbers, 2, 0, 3),
        dilation=_row(numbers, 2, 1, 3),
        group=group,
    )


_DRAWN: Mapping[
    str, Callable[[Numbers], ConvolutionCall | FoldCall | BlockCall | DeconvolutionCall]
] = {
    "convolution_backward": _convolution,
    "im2col_backward": _fold,
    "conv2d_backprop_input": _blocks,
    "conv2d_backprop_filter": _blocks,
    "deconv_grad_filter": _deconvolution,
}
