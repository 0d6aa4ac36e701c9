"""Forms of conv2d_backprop_input and conv2d_backprop_filter."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.tensor import Format

_PLAIN = BlockCall(image=(2, 16, 7, 8), weight=(16, 16, 3, 2))
_TAILS = BlockCall(image=(2, 20, 5, 6), weight=(24, 20, 3, 2))
_GROUPED = BlockCall(image=(2, 16, 5, 6), weight=(32, 4, 3, 3), groups=4)
_ODD = BlockCall(image=(1, 72, 4, 4), weight=(24, 24, 2, 2), groups=3, padding=(1, 0, 0, 1))
_DEPTHWISE = BlockCall(image=(2, 33, 5, 6), weight=(33, 1, 3, 3), groups=33, padding=(1, 1, 1, 1))
_ALL = BlockCall(
    image=(2, 20, 11, 9),
    weight=(24, 10, 3, 2),
    strides=(2, 3),
    padding=(2, 1, 0, 3),
    dilations=(3, 2),
    groups=2,
)
_SPELLINGS = ("float16", "float32", "bfloat16", "float64")
_OUTPUT, _FILTERS = "out_backprop", "filters"


def input_forms() -> Iterator[Form]:
    """Of conv2d_backprop_input, simple ones first."""
    yield from _shared()
    layouts = {
        "filters with gaps": {_FILTERS: Layout(strides=(1100, 530, 33, 2), offset=3)},
        "filters with their axes reversed": {_FILTERS: Layout(strides=(1, 12, 24, 384))},
        "res_tensor with gaps": {"res_tensor": Layout(strides=(2200, 1050, 201, 33, 2), offset=5)},
        "res_tensor channels first": {"res_tensor": Layout(strides=(960, 480, 6, 1, 30))},
        "format ND": {name: Layout(format=Format.ND) for name in (_FILTERS, _OUTPUT, "res_tensor")},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_TAILS, layouts=layout)
    one = (16, 16, 1, 1)
    limits = {
        "height times its stride": BlockCall(image=(1, 16, 200000, 1), weight=one),
        "width times its stride": BlockCall(image=(1, 16, 2, 4096), weight=one),
        "a row": BlockCall(image=(1, 16, 1, 5000), weight=one),
        "dilation": BlockCall(image=(1, 16, 2, 260), weight=(16, 16, 1, 2), dilations=(1, 255)),
    }
    for name, call in limits.items():
        yield Form(name=f"limit of {name}", call=call, is_limit=True)


def filter_forms() -> Iterator[Form]:
    """Of conv2d_backprop_filter, simple ones first."""
    yield from _shared()
    for name, call in (("groups", _GROUPED), ("odd groups", _ODD), ("depthwise", _DEPTHWISE)):
        yield Form(name=f"{name}, raw", call=replace(call, raw=True))
    images = ("input_x", _OUTPUT, "res_tensor")
    layouts = {
        "input_x channels first": {"input_x": Layout(strides=(960, 480, 6, 1, 30), offset=1)},
        "input_x repeated over the batch": {"input_x": Layout(strides=(0, 480, 96, 16, 1))},
        "res_tensor with gaps": {"res_tensor": Layout(strides=(1100, 530, 33, 2), offset=3)},
        "res_tensor with its axes reversed": {"res_tensor": Layout(strides=(1, 12, 24, 384))},
        "format ND": {name: Layout(format=Format.ND) for name in images},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_TAILS, layouts=layout)
    dilated = BlockCall(image=(1, 16, 1, 600), weight=(16, 16, 1, 255), dilations=(1, 2))
    one = (16, 16, 1, 1)
    limits = {
        "kernel": dilated,
        "stride": replace(dilated, weight=(16, 16, 1, 2), strides=(1, 63)),
        "dilation": replace(dilated, weight=(16, 16, 1, 2), dilations=(1, 255)),
        "padding": BlockCall(image=(1, 16, 2, 9), weight=(16, 16, 1, 2), padding=(0, 255, 0, 0)),
        "height": BlockCall(image=(1, 16, 200000, 1), weight=one),
        "width": BlockCall(image=(1, 16, 2, 4096), weight=one),
        "a row": BlockCall(image=(1, 16, 1, 5000), weight=one),
    }
    for name, call in limits.items():
        yield Form(name=f"limit of {name}", call=call, is_limit=True)
    beyond = {
        "kernel": BlockCall(image=(1, 16, 2, 259), weight=(16, 16, 1, 257)),
        "stride": BlockCall(image=(1, 16, 2, 130), weight=one, strides=(1, 64)),
    }
    for name, call in beyond.items():
        yield Form(name=f"{name} beyond the limits of dilated ones", call=call)


def _shared() -> Iterator[Form]:
    calls = {
        "plain": _PLAIN,
        "tails of channels": _TAILS,
        "several blocks of channels": BlockCall(image=(2, 36, 5, 6), weight=(40, 36, 3, 3)),
        "stride": replace(_PLAIN, strides=(2, 3)),
        "stride beyond the kernel": replace(_PLAIN, weight=(16, 16, 1, 2), strides=(3, 4)),
        "padding": replace(_PLAIN, padding=(1, 1, 1, 1)),
        "padding that differs by side": replace(_PLAIN, padding=(0, 2, 1, 0)),
        "padding beyond the kernel": replace(_PLAIN, padding=(4, 5, 0, 3)),
        "dilation": replace(_PLAIN, dilations=(2, 3)),
        "all of them": _ALL,
        "kernel of 1 with a stride": replace(_PLAIN, weight=(16, 16, 1, 1), strides=(2, 3)),
        "kernel as large as the image": replace(_PLAIN, weight=(16, 16, 7, 8)),
        "one row": BlockCall(image=(2, 16, 1, 9), weight=(16, 16, 1, 3), padding=(0, 0, 1, 0)),
        "one column": BlockCall(image=(2, 16, 9, 1), weight=(16, 16, 3, 1), padding=(1, 1, 0, 0)),
        "one of everything": BlockCall(image=(1, 1, 1, 1), weight=(1, 1, 1, 1)),
        "3 x 3 of many channels": BlockCall(
            image=(1, 64, 14, 14), weight=(64, 64, 3, 3), padding=(1, 1, 1, 1)
        ),
    }
    for name, call in (calls | _grouped()).items():
        yield Form(name=name, call=call)
    for spelling in _SPELLINGS:
        yield Form(name=f"result in {spelling}", call=replace(_ALL, result=spelling))
    layouts = {
        "out_backprop with gaps": {_OUTPUT: Layout(strides=(2200, 1050, 201, 33, 2), offset=5)},
        "out_backprop repeated over the batch": {_OUTPUT: Layout(strides=(0, 240, 80, 16, 1))},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_TAILS, layouts=layout)


def _grouped() -> dict[str, BlockCall]:
    return {
        "one group": replace(_PLAIN, groups=1),
        "groups in one superblock": _GROUPED,
        "groups that fill their blocks": BlockCall(
            image=(2, 32, 5, 6), weight=(32, 16, 3, 3), groups=2
        ),
        "groups of more blocks than the image has": _ODD,
        "groups of one input channel": BlockCall(
            image=(1, 3, 5, 6), weight=(48, 1, 2, 2), groups=3
        ),
        "depthwise": _DEPTHWISE,
    }
