"""Forms of conv_tbc_backward."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between
from opserve_kernels.cases.forms.form import Form, gapped
from opserve_kernels.operators.conv_tbc_backward.cases.calls import TbcCall
from opserve_kernels.tensor import DataType, Format

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_PLAIN = TbcCall(image=(9, 2, 4), weight=(3, 4, 5), pad=1)
_SHAPES = {
    "self": _PLAIN.output,
    "input": _PLAIN.image,
    "weight": _PLAIN.weight,
    "grad_input": _PLAIN.image,
    "grad_weight": _PLAIN.weight,
}
_LONGEST, _MOST_TAPS = 40, 9


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    calls = {
        "plain": replace(_PLAIN, pad=0),
        "pad": _PLAIN,
        "pad beyond the kernel": replace(_PLAIN, pad=4),
        "even kernel": replace(_PLAIN, weight=(4, 4, 5)),
        "kernel of 1": replace(_PLAIN, weight=(1, 4, 5), pad=0),
        "kernel of 1 with a pad": replace(_PLAIN, weight=(1, 4, 5), pad=2),
        "kernel as long as the input": replace(_PLAIN, weight=(9, 4, 5), pad=0),
        "kernel longer than the input": replace(_PLAIN, weight=(12, 4, 5), pad=3),
        "one of everything": TbcCall(image=(1, 1, 1), weight=(1, 1, 1)),
        "one entry": TbcCall(image=(40, 1, 6), weight=(5, 6, 8), pad=2),
        "one time": TbcCall(image=(1, 6, 4), weight=(3, 4, 3), pad=1),
        "a long input": TbcCall(image=(300, 2, 2), weight=(3, 2, 3), pad=1),
        "a large batch": TbcCall(image=(5, 70, 3), weight=(3, 3, 4)),
        "many channels": TbcCall(image=(14, 2, 33), weight=(3, 33, 70), pad=1),
        "more entries than times and channels": TbcCall(image=(3, 8, 2), weight=(2, 2, 3)),
        "no times": TbcCall(image=(0, 2, 4), weight=(3, 4, 5), pad=2),
        "no input channels": TbcCall(image=(9, 2, 0), weight=(3, 0, 5), pad=1),
        "no taps": replace(_PLAIN, weight=(0, 4, 5)),
    }
    for name, call in calls.items():
        yield Form(name=name, call=call)
    yield from _laid_out()
    yield from _computed()


def drawn(numbers: Numbers) -> TbcCall:
    """A call of any geometry."""
    taps, pad = between(numbers, 1, _MOST_TAPS), between(numbers, 0, 4)
    inputs, outputs = between(numbers, 1, CHANNELS), between(numbers, 1, CHANNELS)
    time = max(1, taps - 2 * pad) + between(numbers, 0, _LONGEST)
    image = (time, between(numbers, 1, 5), inputs)
    return TbcCall(image=image, weight=(taps, inputs, outputs), pad=pad)


def _laid_out() -> Iterator[Form]:
    for name, shape in _SHAPES.items():
        gaps = {name: Layout(strides=gapped(shape), offset=3)}
        yield Form(name=f"{name} with gaps", call=_PLAIN, layouts=gaps)
    for name in ("self", "input", "grad_input"):
        times, _, channels = _SHAPES[name]
        first = {name: Layout(strides=(1, times * channels, times))}
        yield Form(name=f"{name} with axes of NCL", call=_PLAIN, layouts=first)
    repeated = {"input": Layout(strides=(4, 0, 1))}
    yield Form(name="input repeated over the batch", call=_PLAIN, layouts=repeated)
    bias = {name: Layout(strides=(3,), offset=2) for name in ("bias", "grad_bias")}
    yield Form(name="bias with gaps", call=_PLAIN, layouts=bias)
    tagged = {name: Layout(format=Format.NCL) for name in _SHAPES}
    yield Form(name="format NCL", call=_PLAIN, layouts=tagged)


def _computed() -> Iterator[Form]:
    """Forms with each cube_math_type, and with several dtypes."""
    for kind in (1, 2, 3):
        yield Form(name=f"cube_math_type {kind}", call=replace(_PLAIN, cube_math_type=kind))
    mixtures: dict[str, tuple[DataType, DataType, DataType, DataType]] = {
        "FLOAT beside FLOAT16": (_FLOAT, _HALF, _HALF, _FLOAT),
        "FLOAT16 beside BF16": (_HALF, _BF16, _HALF, _BF16),
        "weight in FLOAT": (_BF16, _BF16, _FLOAT, _BF16),
    }
    for name, dtypes in mixtures.items():
        yield Form(name=name, call=replace(_PLAIN, dtypes=dtypes), keeps_dtypes=True)
