"""Forms of conv2d_backprop_input."""

from collections.abc import Iterator

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.blocks import OUTPUT, TAILS, drawn_blocks, shared_forms
from opserve_kernels.cases.forms.drawing import Numbers
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.operators.conv2d_backprop_input.cases.calls import InputCall
from opserve_kernels.tensor import Format

_FILTERS = "filters"


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    yield from shared_forms(InputCall)
    layouts = {
        "filters with gaps": {_FILTERS: Layout(strides=(1100, 530, 33, 2), offset=3)},
        "filters with their axes reversed": {_FILTERS: Layout(strides=(1, 12, 24, 384))},
        "res_tensor with gaps": {"res_tensor": Layout(strides=(2200, 1050, 201, 33, 2), offset=5)},
        "res_tensor channels first": {"res_tensor": Layout(strides=(960, 480, 6, 1, 30))},
        "format ND": {name: Layout(format=Format.ND) for name in (_FILTERS, OUTPUT, "res_tensor")},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=InputCall(TAILS), layouts=layout)
    one = (16, 16, 1, 1)
    limits = {
        "height times its stride": BlockCall(image=(1, 16, 200000, 1), weight=one),
        "width times its stride": BlockCall(image=(1, 16, 2, 4096), weight=one),
        "a row": BlockCall(image=(1, 16, 1, 5000), weight=one),
        "dilation": BlockCall(image=(1, 16, 2, 260), weight=(16, 16, 1, 2), dilations=(1, 255)),
    }
    for name, call in limits.items():
        yield Form(name=f"limit of {name}", call=InputCall(call), is_limit=True)


def drawn(numbers: Numbers) -> InputCall:
    """A call of any geometry, with groups or without."""
    return InputCall(drawn_blocks(numbers))
