"""Forms of conv2d_backprop_filter."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.blocks import (
    DEPTHWISE,
    GROUPED,
    ODD,
    OUTPUT,
    TAILS,
    drawn_blocks,
    shared_forms,
)
from opserve_kernels.cases.forms.drawing import Numbers
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.operators.conv2d_backprop_filter.cases.calls import FilterCall
from opserve_kernels.tensor import Format


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    yield from shared_forms(FilterCall)
    for name, call in (("groups", GROUPED), ("odd groups", ODD), ("depthwise", DEPTHWISE)):
        yield Form(name=f"{name}, raw", call=FilterCall(replace(call, raw=True)))
    images = ("input_x", OUTPUT, "res_tensor")
    layouts = {
        "input_x channels first": {"input_x": Layout(strides=(960, 480, 6, 1, 30), offset=1)},
        "input_x repeated over the batch": {"input_x": Layout(strides=(0, 480, 96, 16, 1))},
        "res_tensor with gaps": {"res_tensor": Layout(strides=(1100, 530, 33, 2), offset=3)},
        "res_tensor with its axes reversed": {"res_tensor": Layout(strides=(1, 12, 24, 384))},
        "format ND": {name: Layout(format=Format.ND) for name in images},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=FilterCall(TAILS), layouts=layout)
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
        yield Form(name=f"limit of {name}", call=FilterCall(call), is_limit=True)
    beyond = {
        "kernel": BlockCall(image=(1, 16, 2, 259), weight=(16, 16, 1, 257)),
        "stride": BlockCall(image=(1, 16, 2, 130), weight=one, strides=(1, 64)),
    }
    for name, call in beyond.items():
        yield Form(name=f"{name} beyond the limits of dilated ones", call=FilterCall(call))


def drawn(numbers: Numbers) -> FilterCall:
    """A call of any geometry, with groups or without."""
    return FilterCall(drawn_blocks(numbers))
