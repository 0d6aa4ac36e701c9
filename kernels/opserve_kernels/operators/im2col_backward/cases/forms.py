"""Forms of im2col_backward."""

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
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import Format

_WIDER = (2, 18, 72)  # than grad_output of PLAIN, so that gaps are between its rows


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    for name, blocks in named_blocks().items():
        yield Form(name=name, call=_call_of(blocks))
    yield from _laid_out()
    yield from _mixed()


def drawn(numbers: Numbers) -> FoldCall:
    """A call of any geometry."""
    return _call_of(drawn_blocks(numbers))


def _call_of(blocks: Blocks) -> FoldCall:
    return FoldCall(out=blocks.image, **blocks.steps)


def _laid_out() -> Iterator[Form]:
    layouts = {
        "grad_output with gaps": {"grad_output": Layout(strides=gapped(_WIDER), offset=3)},
        "grad_output transposed": {"grad_output": Layout(strides=(18 * 72, 1, 18))},
        "grad_output repeated over the batch": {"grad_output": Layout(strides=(0, 72, 1))},
        "out with gaps": {"out": Layout(strides=gapped(PLAIN.image), offset=2)},
        "out channels last": {"out": Layout(strides=channels_last(PLAIN.image), offset=1)},
        "format NHWC": {"out": Layout(format=Format.NHWC)},
        "format NCHW": {"out": Layout(format=Format.NCHW)},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_call_of(PLAIN), layouts=layout)


def _mixed() -> Iterator[Form]:
    for given, made in MIXTURES:
        call = replace(_call_of(ALL), dtypes=(given, made))
        yield Form(name=f"{given} into {made}", call=call, keeps_dtypes=True)
