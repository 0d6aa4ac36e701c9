"""Forms of the operators on blocks, for either gradient."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, one_of, row
from opserve_kernels.cases.forms.form import Call, Form

PLAIN = BlockCall(image=(2, 16, 7, 8), weight=(16, 16, 3, 2))
TAILS = BlockCall(image=(2, 20, 5, 6), weight=(24, 20, 3, 2))
GROUPED = BlockCall(image=(2, 16, 5, 6), weight=(32, 4, 3, 3), groups=4)
ODD = BlockCall(image=(1, 72, 4, 4), weight=(24, 24, 2, 2), groups=3, padding=(1, 0, 0, 1))
DEPTHWISE = BlockCall(image=(2, 33, 5, 6), weight=(33, 1, 3, 3), groups=33, padding=(1, 1, 1, 1))
_ALL = BlockCall(
    image=(2, 20, 11, 9),
    weight=(24, 10, 3, 2),
    strides=(2, 3),
    padding=(2, 1, 0, 3),
    dilations=(3, 2),
    groups=2,
)
_SPELLINGS = ("float16", "float32", "bfloat16", "float64")
OUTPUT = "out_backprop"


def shared_forms(made: Callable[[BlockCall], Call]) -> Iterator[Form]:
    """The forms of both operators, simple ones first, as calls of one of them."""
    calls = {
        "plain": PLAIN,
        "tails of channels": TAILS,
        "several blocks of channels": BlockCall(image=(2, 36, 5, 6), weight=(40, 36, 3, 3)),
        "stride": replace(PLAIN, strides=(2, 3)),
        "stride beyond the kernel": replace(PLAIN, weight=(16, 16, 1, 2), strides=(3, 4)),
        "padding": replace(PLAIN, padding=(1, 1, 1, 1)),
        "padding that differs by side": replace(PLAIN, padding=(0, 2, 1, 0)),
        "padding beyond the kernel": replace(PLAIN, padding=(4, 5, 0, 3)),
        "dilation": replace(PLAIN, dilations=(2, 3)),
        "all of them": _ALL,
        "kernel of 1 with a stride": replace(PLAIN, weight=(16, 16, 1, 1), strides=(2, 3)),
        "kernel as large as the image": replace(PLAIN, weight=(16, 16, 7, 8)),
        "one row": BlockCall(image=(2, 16, 1, 9), weight=(16, 16, 1, 3), padding=(0, 0, 1, 0)),
        "one column": BlockCall(image=(2, 16, 9, 1), weight=(16, 16, 3, 1), padding=(1, 1, 0, 0)),
        "one of everything": BlockCall(image=(1, 1, 1, 1), weight=(1, 1, 1, 1)),
        "3 x 3 of many channels": BlockCall(
            image=(1, 64, 14, 14), weight=(64, 64, 3, 3), padding=(1, 1, 1, 1)
        ),
    }
    for name, call in (calls | _grouped()).items():
        yield Form(name=name, call=made(call))
    for spelling in _SPELLINGS:
        yield Form(name=f"result in {spelling}", call=made(replace(_ALL, result=spelling)))
    layouts = {
        "out_backprop with gaps": {OUTPUT: Layout(strides=(2200, 1050, 201, 33, 2), offset=5)},
        "out_backprop repeated over the batch": {OUTPUT: Layout(strides=(0, 240, 80, 16, 1))},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=made(TAILS), layouts=layout)


def drawn_blocks(numbers: Numbers) -> BlockCall:
    """A call of any geometry, with groups or without."""
    groups = one_of(numbers, (None, 1, 2, 3, 8))
    kernel, dilations = row(numbers, 2, 1, 4), row(numbers, 2, 1, 2)
    dilated_kernel = tuple(
        step * (taps - 1) + 1 for step, taps in zip(dilations, kernel, strict=True)
    )
    size = tuple(span + between(numbers, 0, 8) for span in dilated_kernel)
    inner, outer = between(numbers, 1, 2 * CHANNELS), between(numbers, 1, 2 * CHANNELS)
    return BlockCall(
        image=(between(numbers, 1, 3), (groups or 1) * inner, *size),
        weight=((groups or 1) * outer, inner, *kernel),
        strides=row(numbers, 2, 1, 3),
        padding=row(numbers, 4, 0, 2),
        dilations=dilations,
        groups=groups,
    )


def _grouped() -> dict[str, BlockCall]:
    return {
        "one group": replace(PLAIN, groups=1),
        "groups in one superblock": GROUPED,
        "groups that fill their blocks": BlockCall(
            image=(2, 32, 5, 6), weight=(32, 16, 3, 3), groups=2
        ),
        "groups of more blocks than the image has": ODD,
        "groups of one input channel": BlockCall(
            image=(1, 3, 5, 6), weight=(48, 1, 2, 2), groups=3
        ),
        "depthwise": DEPTHWISE,
    }
