"""Forms of conv_depthwise2d."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import Numbers, between, row
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.operators.conv_depthwise2d.cases.calls import DepthwiseCall
from opserve_kernels.tensor import contiguous_strides

_PLAIN = DepthwiseCall(image=(2, 5, 9, 8), kernel=(3, 2))
_ALL = DepthwiseCall(
    image=(3, 6, 12, 11),
    kernel=(3, 2),
    multiplier=2,
    stride=(2, 3),
    padding=(1, 2),
    dilation=(2, 3),
)
_CHANNELS, _MULTIPLIERS = 20, 3  # of a drawn call, at most


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    calls = {
        "plain": _PLAIN,
        "without bias": replace(_PLAIN, has_bias=False),
        "multiplier": replace(_PLAIN, multiplier=3),
        "stride": replace(_PLAIN, stride=(2, 3)),
        "padding": replace(_PLAIN, padding=(1, 2)),
        "dilation": replace(_PLAIN, dilation=(2, 3), padding=(2, 3)),
        "all of them": _ALL,
        "all of them, without bias": replace(_ALL, has_bias=False),
        "kernel of 1": replace(_PLAIN, kernel=(1, 1)),
        "kernel as large as the image": replace(_PLAIN, kernel=(9, 8)),
        "stride beyond the kernel": replace(_PLAIN, kernel=(1, 2), stride=(3, 4)),
        "padding beyond the kernel": replace(_PLAIN, padding=(4, 3)),
        "one channel": replace(_PLAIN, image=(2, 1, 9, 8)),
        "one of everything": DepthwiseCall(image=(1, 1, 1, 1), kernel=(1, 1)),
        "one row": DepthwiseCall(image=(2, 5, 1, 40), kernel=(1, 3), padding=(0, 1)),
        "one column": DepthwiseCall(image=(2, 5, 40, 1), kernel=(3, 1), padding=(1, 0)),
        "many channels": DepthwiseCall(image=(2, 70, 14, 14), kernel=(3, 3), padding=(1, 1)),
        "a wide image": DepthwiseCall(image=(1, 2, 5, 300), kernel=(3, 3), padding=(1, 1)),
        "7 x 7": DepthwiseCall(image=(1, 9, 14, 14), kernel=(7, 7), padding=(3, 3)),
        "no entries": replace(_PLAIN, image=(0, 5, 9, 8)),
        "no channels": replace(_PLAIN, image=(2, 0, 9, 8)),
    }
    for name, call in calls.items():
        yield Form(name=name, call=call)
    for kind in (1, 2, 3, 4):
        yield Form(name=f"cube_math_type {kind}", call=replace(_ALL, cube_math_type=kind))
    yield from _laid_out()


def rarer_forms() -> Iterator[Form]:
    """Forms for rare errors; apart, so that the others keep their turns of dtypes."""
    call = replace(_PLAIN, kernel=(1, 1), stride=(2, 3))
    yield Form(name="kernel of 1 with a stride", call=call)


def drawn(numbers: Numbers) -> DepthwiseCall:
    """A call of any geometry, with a bias or without."""
    kernel, dilation = row(numbers, 2, 1, 5), row(numbers, 2, 1, 3)
    spans = tuple(step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True))
    size = tuple(span + between(numbers, 0, 12) for span in spans)
    return DepthwiseCall(
        image=(between(numbers, 1, 4), between(numbers, 1, _CHANNELS), *size),
        kernel=kernel,
        multiplier=between(numbers, 1, _MULTIPLIERS),
        stride=row(numbers, 2, 1, 3),
        padding=row(numbers, 2, 0, 2),
        dilation=dilation,
        has_bias=between(numbers, 0, 1) == 1,
    )


def _laid_out() -> Iterator[Form]:
    call = replace(_PLAIN, stride=(2, 1), padding=(1, 1))
    layouts = {
        "self with gaps": {"self": Layout(strides=gapped(call.image), offset=3)},
        "self channels last": {"self": Layout(strides=channels_last(call.image))},
        "self repeated over the batch": {
            "self": Layout(strides=(0, *contiguous_strides(call.image)[1:]))
        },
        "weight with gaps": {"weight": Layout(strides=gapped(call.weight), offset=1)},
        "bias with gaps": {"bias": Layout(strides=(3,), offset=2)},
        "out with gaps": {"out": Layout(strides=gapped(call.out), offset=2)},
        "out channels last": {"out": Layout(strides=channels_last(call.out))},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=call, layouts=layout)
