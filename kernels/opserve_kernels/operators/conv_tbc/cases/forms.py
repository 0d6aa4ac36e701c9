"""Forms of conv_tbc."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between
from opserve_kernels.cases.forms.form import Form, gapped
from opserve_kernels.operators.conv_tbc.cases.calls import TbcLayerCall
from opserve_kernels.tensor import DataType, Format

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_PLAIN = TbcLayerCall(image=(9, 2, 4), weight=(3, 4, 5))
_PADDED = replace(_PLAIN, pad=2)


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    calls = {
        "plain": _PLAIN,
        "pad": _PADDED,
        "pad of the kernel": replace(_PLAIN, pad=3),
        "all of them": TbcLayerCall(image=(17, 3, 9), weight=(4, 9, 10), pad=2),
        "kernel of 1": TbcLayerCall(image=(9, 2, 4), weight=(1, 4, 5)),
        "kernel as long as the image": TbcLayerCall(image=(9, 2, 4), weight=(9, 4, 5)),
        "one of everything": TbcLayerCall(image=(1, 1, 1), weight=(1, 1, 1)),
        "one time": TbcLayerCall(image=(1, 3, 4), weight=(2, 4, 5), pad=1),
        "one entry": TbcLayerCall(image=(12, 1, 4), weight=(3, 4, 5)),
        "one channel in": TbcLayerCall(image=(12, 3, 1), weight=(3, 1, 5)),
        "one channel out": TbcLayerCall(image=(12, 3, 5), weight=(3, 5, 1)),
        "many channels": TbcLayerCall(image=(10, 2, 40), weight=(3, 40, 33), pad=1),
        "a long image": TbcLayerCall(image=(300, 1, 3), weight=(5, 3, 4), pad=2),
        "a large batch": TbcLayerCall(image=(5, 70, 3), weight=(3, 3, 4)),
        "no entries": replace(_PLAIN, image=(9, 0, 4)),
        "no channels in, the bias alone": TbcLayerCall(image=(9, 2, 0), weight=(3, 0, 5), pad=1),
        "no times, the bias alone": TbcLayerCall(image=(0, 2, 4), weight=(3, 4, 5), pad=3),
    }
    for name, call in calls.items():
        yield Form(name=name, call=call)
    for kind in (1, 2, 3, 4):
        yield Form(name=f"cube_math_type {kind}", call=replace(_PADDED, cube_math_type=kind))
    for dtype, bias in ((_HALF, _FLOAT), (_BF16, _FLOAT), (_FLOAT, _HALF), (_HALF, _BF16)):
        mixed = replace(_PADDED, dtypes=(dtype, bias))
        yield Form(name=f"{dtype} with a {bias} bias", call=mixed, keeps_dtypes=True)
    yield from _laid_out()


def drawn(numbers: Numbers) -> TbcLayerCall:
    """A call of any geometry."""
    taps = between(numbers, 1, 6)
    inputs, outputs = between(numbers, 1, CHANNELS), between(numbers, 1, CHANNELS)
    return TbcLayerCall(
        image=(taps + between(numbers, 0, 30), between(numbers, 1, 4), inputs),
        weight=(taps, inputs, outputs),
        pad=between(numbers, 0, 3),
    )


def _laid_out() -> Iterator[Form]:
    layouts = {
        "self with gaps": {"self": Layout(strides=gapped(_PADDED.image), offset=3)},
        "self as NCL in memory": {"self": Layout(strides=(1, 36, 9))},
        "self repeated over the batch": {"self": Layout(strides=(4, 0, 1))},
        "weight with gaps": {"weight": Layout(strides=gapped(_PADDED.weight), offset=1)},
        "weight as NCL in memory": {"weight": Layout(strides=(1, 3, 12))},
        "bias with gaps": {"bias": Layout(strides=(3,), offset=2)},
        "out with gaps": {"out": Layout(strides=gapped(_PADDED.out), offset=2)},
        "out as NCL in memory": {"out": Layout(strides=(1, 55, 11))},
        "format NCL": {name: Layout(format=Format.NCL) for name in ("self", "weight", "out")},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_PADDED, layouts=layout)
