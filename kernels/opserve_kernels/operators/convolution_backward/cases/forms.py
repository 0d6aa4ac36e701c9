"""Forms of convolution_backward, in one, two and three spatial dimensions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from opserve_kernels.cases.calls import Layout, Row
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, row
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.operators.convolution_backward.cases.refusals import at_limit
from opserve_kernels.operators.convolution_backward.contract import BOUNDS
from opserve_kernels.tensor import DataType, Format, contiguous_strides

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_SIZES: tuple[Row, ...] = ((11,), (9, 8), (5, 6, 7))
_KERNELS: tuple[Row, ...] = ((3,), (3, 2), (2, 3, 2))
_STRIDES: Row = (2, 3, 2)
_PADDING: Row = (1, 2, 1)
_DILATION: Row = (2, 3, 2)
_SPREAD, _KERNEL = (40, 12, 5), (9, 5, 3)  # sizes and taps of a drawn call, at most, by dimensions
_SAMPLE_RANKS = (1, 2, 3)
_MOST_TRIED = 65535  # values of a limit that is tried: beyond it a call takes too much memory
_LIMITED_TENSORS = ("weight", "input", "grad_output")


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    for axes in _SAMPLE_RANKS:
        yield from _plain(axes)
        yield from _transposed(axes)
        yield from _masked(axes)
        yield from _laid_out(axes)
        yield from _empty(axes)
    yield from _planes()
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
    axes, transposed = between(numbers, 1, 3), between(numbers, 0, 2) == 0
    kernel = row(numbers, axes, 1, _KERNEL[axes - 1])
    stride, dilation = row(numbers, axes, 1, 3), row(numbers, axes, 1, 2)
    dilated_kernel = tuple(
        step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)
    )
    sides = -1 if transposed else 1  # more would leave nothing of a transposed one's output
    padding = tuple(between(numbers, 0, (span + sides) // 2) for span in dilated_kernel)
    groups, inner, outer = (between(numbers, 1, most) for most in (3, CHANNELS, CHANNELS))
    spread = row(numbers, axes, 0, _SPREAD[axes - 1])
    size = tuple(span + more for span, more in zip(dilated_kernel, spread, strict=True))
    extra = tuple(between(numbers, 0, step - 1) for step in stride)
    first, second = (inner, outer) if transposed else (outer, inner)
    return ConvolutionCall(
        input=(between(numbers, 1, 4), groups * inner, *size),
        weight=(groups * first, second, *kernel),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
        output_padding=extra if transposed else (),
    )


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
            _plain_call(2), weight=(4, 5, 3, 2), stride=_STRIDES[:2], transposed=True
        ),
    }
    for name, call in calls.items():
        for kind in (1, 2, 3):
            form = replace(call, cube_math_type=kind)
            yield Form(name=f"{name}, cube_math_type {kind}", call=form, keeps_dtypes=True)


def _plain_call(axes: int, channels: int = 4, outputs: int = 6) -> ConvolutionCall:
    sizes, kernel = _SIZES[axes - 1], _KERNELS[axes - 1]
    return ConvolutionCall(input=(2, channels, *sizes), weight=(outputs, channels, *kernel))


def _plain(axes: int) -> Iterator[Form]:
    call, kernel, size = _plain_call(axes), _KERNELS[axes - 1], _SIZES[axes - 1]
    stride, padding, dilation = _STRIDES[:axes], _PADDING[:axes], _DILATION[:axes]
    grouped, depthwise = (6, 2, *kernel), (4, 1, *kernel)
    shapes = {
        "plain": call,
        "stride": replace(call, stride=stride),
        "padding": replace(call, padding=padding),
        "dilation": replace(call, dilation=dilation, padding=dilation),
        "groups": replace(call, weight=grouped, groups=2),
        "depthwise": replace(call, weight=depthwise, groups=4, padding=padding),
        "depthwise with a multiplier": replace(call, weight=(8, 1, *kernel), groups=4),
        "kernel of 1": replace(call, weight=(6, 4, *(1,) * axes)),
        "kernel of 1 with a stride": replace(call, weight=(6, 4, *(1,) * axes), stride=stride),
        "kernel as large as the image": replace(call, weight=(3, 4, *size)),
        "stride beyond the kernel": replace(call, weight=(3, 4, *(1,) * axes), stride=(3,) * axes),
        "padding beyond the kernel": replace(call, padding=tuple(tap + 1 for tap in kernel)),
        "one of everything": replace(call, input=(1,) * (axes + 2), weight=(1,) * (axes + 2)),
        "all of them": _all_of_them(axes),
    }
    for name, shape in shapes.items():
        yield Form(name=f"{axes}-D {name}", call=shape)


def _all_of_them(axes: int) -> ConvolutionCall:
    size = tuple(size + 3 for size in _SIZES[axes - 1])
    return ConvolutionCall(
        input=(3, 6, *size),
        weight=(4, 3, *_KERNELS[axes - 1]),
        stride=_STRIDES[:axes],
        padding=_PADDING[:axes],
        dilation=_DILATION[:axes],
        groups=2,
    )


def _transposed(axes: int) -> Iterator[Form]:
    size, kernel = tuple(size // 2 + 1 for size in _SIZES[axes - 1]), _KERNELS[axes - 1]
    call = ConvolutionCall(input=(2, 4, *size), weight=(4, 5, *kernel), transposed=True)
    stride, padding, dilation = _STRIDES[:axes], _PADDING[:axes], _DILATION[:axes]
    extra = tuple(step - 1 for step in stride)
    grouped = replace(call, weight=(4, 3, *kernel), groups=2)
    shapes = {
        "plain": call,
        "stride": replace(call, stride=stride),
        "padding": replace(call, padding=(1,) * axes, stride=stride),
        "dilation": replace(call, dilation=dilation),
        "output padding": replace(call, stride=stride, output_padding=extra),
        "groups": replace(grouped, stride=stride),
        "depthwise": replace(call, weight=(4, 1, *kernel), groups=4, stride=stride),
        "all of them": replace(
            grouped, stride=stride, padding=padding, dilation=dilation, output_padding=extra
        ),
    }
    for name, shape in shapes.items():
        yield Form(name=f"{axes}-D transposed, {name}", call=shape)


def _masked(axes: int) -> Iterator[Form]:
    for mask in _masks():
        name = _flags(mask)
        yield Form(name=f"{axes}-D mask {name}", call=replace(_all_of_them(axes), mask=mask))
        transposed = replace(_plain_call(axes), weight=(4, 6, *_KERNELS[axes - 1]), mask=mask)
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
    call = replace(_plain_call(axes), stride=_STRIDES[:axes], padding=_PADDING[:axes])
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
    call, kernel = _plain_call(axes), _KERNELS[axes - 1]
    none = replace(call, input=(0, *call.input[1:]))
    yield Form(name=f"{axes}-D no entries", call=none)
    transposed = replace(none, weight=(4, 6, *kernel), transposed=True)
    yield Form(name=f"{axes}-D no entries, transposed", call=transposed)
    without = replace(call, input=(2, 0, *call.input[2:]), weight=(6, 0, *kernel))
    yield Form(name=f"{axes}-D no channels", call=without)


def _planes() -> Iterator[Form]:
    """Forms for special cases of 2-D kernels: sides, tails, and sizes of fast algorithms."""
    sides = replace(_plain_call(2), padding=(0, 2, 1, 0), stride=(2, 1))
    shapes = {
        "padding that differs by side": sides,
        "padding that differs by side, transposed": ConvolutionCall(
            input=(2, 4, 5, 4),
            weight=(4, 3, 3, 4),
            padding=(0, 1, 2, 0),
            stride=(2, 3),
            transposed=True,
        ),
        "tails of channels": _square((2, 17, 7, 7), 33, 3, padding=(1, 1)),
        "few channels": _square((2, 3, 20, 20), 16, 7, padding=(3, 3), stride=(2, 2)),
        "3 x 3 of many channels": _square((2, 32, 14, 14), 32, 3, padding=(1, 1)),
        "3 x 3 dilated": _square((1, 24, 16, 16), 24, 3, padding=(2, 2), dilation=(2, 2)),
        "5 x 5": _square((2, 16, 12, 12), 24, 5, padding=(2, 2)),
        "1 x 1 of many channels": _square((4, 64, 7, 7), 96, 1),
        "a wide image": _square((1, 2, 3, 300), 3, 3, padding=(1, 1)),
        "a large batch": _square((70, 3, 5, 5), 4, 3),
        "one row": ConvolutionCall(input=(2, 5, 1, 40), weight=(7, 5, 1, 3), padding=(0, 1)),
        "one column": ConvolutionCall(input=(2, 5, 40, 1), weight=(7, 5, 3, 1), padding=(1, 0)),
        "depthwise of many channels": ConvolutionCall(
            input=(2, 70, 14, 14), weight=(70, 1, 3, 3), padding=(1, 1), groups=70
        ),
        "groups of many channels": ConvolutionCall(
            input=(2, 64, 10, 10), weight=(64, 8, 3, 3), padding=(1, 1), groups=8
        ),
    }
    for name, call in shapes.items():
        yield Form(name=f"2-D {name}", call=call)


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


def _square(input_: Row, outputs: int, kernel: int, **steps: Row) -> ConvolutionCall:
    weight = (outputs, input_[1], kernel, kernel)
    return ConvolutionCall(input=input_, weight=weight, **steps)  # type: ignore[arg-type]  # rows
