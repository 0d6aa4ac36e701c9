"""Forms of convolution_backward, in one, two and three spatial dimensions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from opserve_kernels.cases.calls import Layout, Row
from opserve_kernels.cases.forms.convolutions import (
    KERNELS,
    PADDING,
    STRIDES,
    ConvolutionShape,
    all_of_them,
    drawn_shape,
    plain_shape,
    plain_shapes,
    plane_shapes,
    square_shape,
    transposed_shapes,
)
from opserve_kernels.cases.forms.drawing import Numbers
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.cases.networks import network_shapes
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.operators.convolution_backward.cases.refusals import at_limit
from opserve_kernels.operators.convolution_backward.contract import BOUNDS
from opserve_kernels.tensor import DataType, Format, contiguous_strides

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_SAMPLE_RANKS = (1, 2, 3)
_MOST_TRIED = 65535  # values of a limit that is tried: beyond it a call takes too much memory
_LIMITED_TENSORS = ("weight", "input", "grad_output")


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    for axes in _SAMPLE_RANKS:
        for name, shape in plain_shapes(axes).items():
            yield Form(name=f"{axes}-D {name}", call=_call_of(shape))
        for name, shape in transposed_shapes(axes).items():
            yield Form(name=f"{axes}-D transposed, {name}", call=_call_of(shape))
        yield from _masked(axes)
        yield from _laid_out(axes)
        yield from _empty(axes)
    for name, shape in plane_shapes().items():
        yield Form(name=f"2-D {name}", call=_call_of(shape))
    yield from _mixed()
    yield from _limits()


def rarer_forms() -> Iterator[Form]:
    """Forms for rare errors; apart, so that the others keep their turns of dtypes."""
    for axes in _SAMPLE_RANKS:
        for mask in _masks():
            call = replace(_all_of_them(axes), mask=mask, gives_masked=True)
            yield Form(name=f"{axes}-D mask {_flags(mask)}, all given", call=call)
    yield from _narrowed()


def drawn(numbers: Numbers) -> ConvolutionCall:
    """A call of any rank, transposed or not."""
    return _call_of(drawn_shape(numbers))


def network_layers() -> Iterator[tuple[str, ConvolutionCall]]:
    """Every layer of the networks in use, with the name of its network."""
    return ((network, _call_of(shape)) for network, shape in network_shapes())


def _narrowed() -> Iterator[Form]:
    """Operands that are rounded before they are multiplied, in calls of several kinds."""
    calls = {
        "1-D": _all_of_them(1),
        "2-D": _all_of_them(2),
        "3-D": replace(_all_of_them(3), groups=1, weight=(4, 6, 2, 3, 2)),
        "3 x 3": _square((2, 16, 9, 9), 16, 3, padding=(1, 1)),
        "1 x 1": _square((2, 24, 6, 6), 20, 1),
        "depthwise": replace(_plain_call(2), weight=(4, 1, 3, 2), groups=4),
        "transposed": replace(
            _plain_call(2), weight=(4, 5, 3, 2), stride=STRIDES[:2], transposed=True
        ),
    }
    for name, call in calls.items():
        for kind in (1, 2, 3):
            form = replace(call, cube_math_type=kind)
            yield Form(name=f"{name}, cube_math_type {kind}", call=form, keeps_dtypes=True)


def _masked(axes: int) -> Iterator[Form]:
    for mask in _masks():
        name = _flags(mask)
        yield Form(name=f"{axes}-D mask {name}", call=replace(_all_of_them(axes), mask=mask))
        transposed = replace(_plain_call(axes), weight=(4, 6, *KERNELS[axes - 1]), mask=mask)
        yield Form(
            name=f"{axes}-D mask {name}, transposed", call=replace(transposed, transposed=True)
        )


def _masks() -> Iterator[Mask]:
    """Masks that leave some gradient out."""
    for first, second, third in product((True, False), repeat=3):
        if not (first and second and third):
            yield first, second, third


def _flags(mask: Mask) -> str:
    return "".join("1" if flag else "0" for flag in mask)


def _laid_out(axes: int) -> Iterator[Form]:
    call = replace(_plain_call(axes), stride=STRIDES[:axes], padding=PADDING[:axes])
    shapes = {
        "grad_output": call.output,
        "input": call.input,
        "weight": call.weight,
        "grad_input": call.input,
        "grad_weight": call.weight,
    }
    for name, shape in shapes.items():
        yield Form(
            name=f"{axes}-D {name} with gaps",
            call=call,
            layouts={name: Layout(strides=gapped(shape), offset=3)},
        )
    for name in ("grad_output", "input", "grad_input"):
        last = Layout(strides=channels_last(shapes[name]))
        yield Form(name=f"{axes}-D {name} channels last", call=call, layouts={name: last})
    for name in ("grad_output", "input"):
        steps = (0, *contiguous_strides(shapes[name])[1:])
        repeated = Layout(strides=steps)
        yield Form(
            name=f"{axes}-D {name} repeated over the batch", call=call, layouts={name: repeated}
        )
    bias = Layout(strides=(3,), offset=2)
    yield Form(name=f"{axes}-D grad_bias with gaps", call=call, layouts={"grad_bias": bias})
    if axes == 1:
        plain = {name: Layout(format=Format.ND) for name in shapes}
        yield Form(name="1-D format ND", call=call, layouts=plain)


def _empty(axes: int) -> Iterator[Form]:
    call, kernel = _plain_call(axes), KERNELS[axes - 1]
    none = replace(call, input=(0, *call.input[1:]))
    yield Form(name=f"{axes}-D no entries", call=none)
    transposed = replace(none, weight=(4, 6, *kernel), transposed=True)
    yield Form(name=f"{axes}-D no entries, transposed", call=transposed)
    without = replace(call, input=(2, 0, *call.input[2:]), weight=(6, 0, *kernel))
    yield Form(name=f"{axes}-D no channels", call=without)


def _mixed() -> Iterator[Form]:
    """Forms with different dtypes, and with each cube_math_type."""
    call = replace(_plain_call(2), padding=(1, 2))
    for kind in (1, 2, 3):
        yield Form(name=f"cube_math_type {kind}", call=replace(call, cube_math_type=kind))
    for kind in (1, 2, 3):
        half = replace(_all_of_them(3), cube_math_type=kind, groups=1, weight=(4, 6, 2, 3, 2))
        yield Form(name=f"cube_math_type {kind} in 3-D", call=half)
    mixtures: dict[str, tuple[DataType, DataType, DataType]] = {
        "FLOAT beside FLOAT16": (_FLOAT, _HALF, _HALF),
        "FLOAT16 beside BF16": (_HALF, _BF16, _HALF),
        "weight in FLOAT": (_BF16, _BF16, _FLOAT),
    }
    for name, dtypes in mixtures.items():
        yield Form(name=name, call=replace(call, dtypes=dtypes), keeps_dtypes=True)
    results: dict[str, tuple[DataType, DataType]] = {
        "FLOAT16 into FLOAT": (_HALF, _FLOAT),
        "BF16 into FLOAT": (_BF16, _FLOAT),
        "FLOAT into FLOAT16": (_FLOAT, _HALF),
        "FLOAT into BF16": (_FLOAT, _BF16),
    }
    for name, (given, made) in results.items():
        for groups, shape in ((1, (6, 4, 3, 2)), (2, (6, 2, 3, 2))):
            into = replace(
                call, dtypes=(given,) * 3, results=(made,) * 3, groups=groups, weight=shape
            )
            label = f"{name}, groups" if groups > 1 else name
            yield Form(name=label, call=into, keeps_dtypes=True)


def _limits() -> Iterator[Form]:
    """Forms at each limit that memory allows, in every rank that has it."""
    for bound in BOUNDS:
        limit = bound.limit
        if limit.most is None or limit.most > _MOST_TRIED:
            continue
        for rank in bound.ranks:
            is_tensor = limit.parameter in _LIMITED_TENSORS
            places = range(rank if is_tensor else rank - 2)[bound.values]
            call = at_limit(limit.parameter, rank, places[-1] if places else 0, limit.most)
            name = f"limit of {limit.parameter} in {rank - 2}-D"
            yield Form(name=name, call=call, is_limit=True)


def _call_of(shape: ConvolutionShape) -> ConvolutionCall:
    return ConvolutionCall(**shape.members)


def _plain_call(axes: int) -> ConvolutionCall:
    return _call_of(plain_shape(axes))


def _all_of_them(axes: int) -> ConvolutionCall:
    return _call_of(all_of_them(axes))


def _square(input_: Row, outputs: int, kernel: int, **steps: Row) -> ConvolutionCall:
    return _call_of(square_shape(input_, outputs, kernel, **steps))
