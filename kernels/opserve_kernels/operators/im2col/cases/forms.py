"""Forms of im2col."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, row
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.operators.im2col.cases.calls import UnfoldCall
from opserve_kernels.tensor import DataType, Format

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_PLAIN = UnfoldCall(image=(2, 3, 9, 10), kernel=(3, 2))
_ALL = UnfoldCall(
    image=(2, 3, 11, 9), kernel=(3, 2), stride=(2, 3), padding=(2, 1), dilation=(3, 2)
)
_COLUMNS = (2, 18, 63)  # out of _PLAIN


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    calls = {
        "plain": _PLAIN,
        "one entry": replace(_PLAIN, image=(3, 9, 10)),
        "stride": replace(_PLAIN, stride=(2, 3)),
        "padding": replace(_PLAIN, padding=(1, 2)),
        "dilation": replace(_PLAIN, dilation=(2, 3)),
        "all of them": _ALL,
        "all of them, one entry": replace(_ALL, image=(3, 11, 9)),
        "kernel of 1": replace(_PLAIN, kernel=(1, 1)),
        "block as large as the image": replace(_PLAIN, kernel=(9, 10)),
        "stride of the block": UnfoldCall(image=(2, 3, 8, 6), kernel=(4, 3), stride=(4, 3)),
        "stride beyond the block": replace(_PLAIN, kernel=(1, 2), stride=(3, 4)),
        "padding beyond the block": UnfoldCall(image=(1, 2, 3, 4), kernel=(2, 2), padding=(3, 4)),
        "one row": UnfoldCall(image=(2, 3, 1, 9), kernel=(1, 3), padding=(0, 1)),
        "one column": UnfoldCall(image=(2, 3, 9, 1), kernel=(3, 1), padding=(1, 0)),
        "one of everything": UnfoldCall(image=(1, 1, 1, 1), kernel=(1, 1)),
        "a wide image": UnfoldCall(image=(1, 2, 20, 150), kernel=(3, 3), padding=(1, 1)),
        "large blocks": UnfoldCall(image=(1, 2, 24, 24), kernel=(9, 9), padding=(4, 4)),
        "many channels": UnfoldCall(image=(2, 33, 14, 14), kernel=(3, 3), padding=(1, 1)),
        "no entries": replace(_PLAIN, image=(0, 3, 9, 10)),
        "steps beyond the image": UnfoldCall(
            image=(2, 3, 4), kernel=(1, 1), stride=(2**40, 2**40), dilation=(2**40, 2**40)
        ),
    }
    for name, call in calls.items():
        yield Form(name=name, call=call)
    yield from _laid_out()
    yield from _mixed()


def rarer_forms() -> Iterator[Form]:
    """Forms for rare errors; apart, so that the others keep their turns of dtypes."""
    call = replace(_PLAIN, kernel=(1, 1), stride=(2, 3))
    yield Form(name="kernel of 1 with a stride", call=call)


def drawn(numbers: Numbers) -> UnfoldCall:
    """A call of any geometry."""
    kernel, dilation = row(numbers, 2, 1, 5), row(numbers, 2, 1, 3)
    dilated_kernel = tuple(
        step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)
    )
    size = tuple(span + between(numbers, 0, 20) for span in dilated_kernel)
    batch = row(numbers, between(numbers, 0, 1), 1, 4)
    return UnfoldCall(
        image=(*batch, between(numbers, 1, CHANNELS), *size),
        kernel=kernel,
        stride=row(numbers, 2, 1, 4),
        padding=row(numbers, 2, 0, 3),
        dilation=dilation,
    )


def _laid_out() -> Iterator[Form]:
    layouts = {
        "self with gaps": {"self": Layout(strides=gapped(_PLAIN.image), offset=3)},
        "self channels last": {"self": Layout(strides=channels_last(_PLAIN.image), offset=1)},
        "self repeated over the batch": {"self": Layout(strides=(0, 90, 10, 1))},
        "out with gaps": {"out": Layout(strides=gapped(_COLUMNS), offset=2)},
        "out transposed": {"out": Layout(strides=(18 * 63, 1, 18), offset=1)},
        "format NHWC": {"self": Layout(format=Format.NHWC)},
        "format NCHW": {"out": Layout(format=Format.NCHW)},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_PLAIN, layouts=layout)


def _mixed() -> Iterator[Form]:
    for given, made in ((_HALF, _FLOAT), (_FLOAT, _HALF), (_BF16, _HALF), (_FLOAT, _BF16)):
        call = replace(_ALL, dtypes=(given, made))
        yield Form(name=f"{given} into {made}", call=call, keeps_dtypes=True)
