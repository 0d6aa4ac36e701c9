"""Forms of im2col."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import Numbers
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.cases.image_blocks import (
    ALL,
    MIXTURES,
    PLAIN,
    Blocks,
    drawn_blocks,
    named_blocks,
)
from opserve_kernels.operators.im2col.cases.calls import UnfoldCall
from opserve_kernels.tensor import Format


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    for name, blocks in named_blocks().items():
        if 0 not in blocks.image[-3:]:  # which the operator rejects
            yield Form(name=name, call=_call_of(blocks))
    yield from _laid_out()
    yield from _mixed()


def rarer_forms() -> Iterator[Form]:
    """Forms for rare errors; apart, so that the others keep their turns of dtypes."""
    call = _call_of(replace(PLAIN, kernel=(1, 1), stride=(2, 3)))
    yield Form(name="kernel of 1 with a stride", call=call)


def drawn(numbers: Numbers) -> UnfoldCall:
    """A call of any geometry."""
    return _call_of(drawn_blocks(numbers))


def _call_of(blocks: Blocks) -> UnfoldCall:
    return UnfoldCall(image=blocks.image, **blocks.steps)


def _laid_out() -> Iterator[Form]:
    layouts = {
        "self with gaps": {"self": Layout(strides=gapped(PLAIN.image), offset=3)},
        "self channels last": {"self": Layout(strides=channels_last(PLAIN.image), offset=1)},
        "self repeated over the batch": {"self": Layout(strides=(0, 90, 10, 1))},
        "out with gaps": {"out": Layout(strides=gapped(PLAIN.columns), offset=2)},
        "out transposed": {"out": Layout(strides=(18 * 63, 1, 18), offset=1)},
        "format NHWC": {"self": Layout(format=Format.NHWC)},
        "format NCHW": {"out": Layout(format=Format.NCHW)},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_call_of(PLAIN), layouts=layout)


def _mixed() -> Iterator[Form]:
    for given, made in MIXTURES:
        call = replace(_call_of(ALL), dtypes=(given, made))
        yield Form(name=f"{given} into {made}", call=call, keeps_dtypes=True)
