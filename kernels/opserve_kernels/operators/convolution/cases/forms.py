"""Forms of convolution, in one, two and three spatial dimensions."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout, Row
from opserve_kernels.cases.forms.convolutions import (
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
from opserve_kernels.cases.forms.drawing import Numbers, between
from opserve_kernels.cases.forms.form import Form, channels_last, gapped
from opserve_kernels.operators.convolution.cases.calls import LayerCall
from opserve_kernels.operators.convolution.cases.refusals import at_limit
from opserve_kernels.operators.convolution.contract import BOUNDS
from opserve_kernels.tensor import DataType, contiguous_strides

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_RANKS = (1, 2, 3)
_MOST_TRIED = 65535  # values of a limit that is tried: beyond it a call takes too much memory


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    for axes in _RANKS:
        for name, shape in {**plain_shapes(axes), **_transposed(axes)}.items():
            yield Form(name=f"{axes}-D {name}", call=_call_of(shape))
        call = _call_of(all_of_them(axes))
        yield Form(name=f"{axes}-D without bias", call=replace(call, has_bias=False))
        yield from _laid_out(axes)
        yield from _empty(axes)
    for name, shape in plane_shapes().items():
        yield Form(name=f"2-D {name}", call=_call_of(shape))
    yield from _other_padding()
    yield from _mixed()
    yield from _limits()


def rarer_forms() -> Iterator[Form]:
    """Forms for rare errors; apart, so that the others keep their turns of dtypes."""
    for axes in _RANKS:
        call = replace(_call_of(transposed_shapes(axes)["all of them"]), has_bias=False)
        yield Form(name=f"{axes}-D transposed, without bias", call=call)
    calls = {
        "3-D": _call_of(all_of_them(3)),
        "3 x 3": _call_of(square_shape((2, 16, 9, 9), 16, 3, padding=(1, 1))),
        "transposed": _call_of(transposed_shapes(2)["stride"]),
    }
    for name, call in calls.items():
        for kind in (1, 2, 3):
            form = replace(call, cube_math_type=kind)
            yield Form(name=f"{name}, cube_math_type {kind}", call=form, keeps_dtypes=True)


def drawn(numbers: Numbers) -> LayerCall:
    """A call of any rank, transposed or not, with a bias or without."""
    call = _call_of(drawn_shape(numbers))
    return replace(call, has_bias=between(numbers, 0, 1) == 1)


def _call_of(shape: ConvolutionShape) -> LayerCall:
    return LayerCall(**shape.members)


def _transposed(axes: int) -> dict[str, ConvolutionShape]:
    shapes = transposed_shapes(axes)
    return {f"transposed, {name}": shape for name, shape in shapes.items()}


def _laid_out(axes: int) -> Iterator[Form]:
    shape = replace(plain_shape(axes), stride=STRIDES[:axes], padding=PADDING[:axes])
    call = _call_of(shape)
    shapes: dict[str, Row] = {"input": call.input, "weight": call.weight, "output": call.output}
    for name, sizes in shapes.items():
        gaps = Layout(strides=gapped(sizes), offset=3)
        yield Form(name=f"{axes}-D {name} with gaps", call=call, layouts={name: gaps})
    for name in ("input", "output"):
        last = Layout(strides=channels_last(shapes[name]))
        yield Form(name=f"{axes}-D {name} channels last", call=call, layouts={name: last})
    repeated = Layout(strides=(0, *contiguous_strides(call.input)[1:]))
    yield Form(
        name=f"{axes}-D input repeated over the batch", call=call, layouts={"input": repeated}
    )
    bias = Layout(strides=(3,), offset=2)
    yield Form(name=f"{axes}-D bias with gaps", call=call, layouts={"bias": bias})
    if axes == len(_RANKS):
        for names in (("input", "output"), ("weight",), ("input", "weight", "output")):
            in_ndhwc = replace(call, channels_last=names)
            yield Form(name=f"3-D {' and '.join(names)} in NDHWC", call=in_ndhwc)


def _empty(axes: int) -> Iterator[Form]:
    call = _call_of(plain_shape(axes))
    yield Form(name=f"{axes}-D no entries", call=replace(call, input=(0, *call.input[1:])))


def _other_padding() -> Iterator[Form]:
    sides = LayerCall(input=(2, 4, 11), weight=(6, 4, 3), padding=(2, 1), stride=(2,))
    yield Form(name="1-D padding that differs by side", call=sides)
    below = LayerCall(
        input=(2, 4, 5, 4),
        weight=(4, 3, 3, 2),
        dilation=(2, 3),
        output_padding=(1, 2),
        transposed=True,
    )
    yield Form(name="2-D transposed, output padding below dilation", call=below)


def _mixed() -> Iterator[Form]:
    """Forms with different dtypes, and with each cube_math_type."""
    call = _call_of(replace(plain_shape(2), padding=(1, 2)))
    for number in (1, 2, 3, 4):
        yield Form(name=f"cube_math_type {number}", call=replace(call, cube_math_type=number))
    mixtures = {
        "FLOAT beside FLOAT16": (_FLOAT, _HALF, _FLOAT, _FLOAT),
        "FLOAT16 beside BF16": (_HALF, _BF16, _HALF, _FLOAT),
        "FLOAT16 with a FLOAT bias": (_HALF, _HALF, _FLOAT, _HALF),
        "BF16 with a FLOAT bias": (_BF16, _BF16, _FLOAT, _BF16),
        "FLOAT16 into FLOAT": (_HALF, _HALF, _HALF, _FLOAT),
        "BF16 into FLOAT": (_BF16, _BF16, _BF16, _FLOAT),
        "FLOAT into FLOAT16": (_FLOAT, _FLOAT, _FLOAT, _HALF),
        "FLOAT into BF16": (_FLOAT, _FLOAT, _FLOAT, _BF16),
    }
    transposed = _call_of(transposed_shapes(2)["stride"])
    pointwise = LayerCall(input=(2, 4, 3, 4, 5), weight=(6, 4, 1, 1, 1))
    for name, dtypes in mixtures.items():
        yield Form(name=name, call=replace(call, dtypes=dtypes), keeps_dtypes=True)
    biased = (_HALF, _HALF, _FLOAT, _HALF)
    for name, form in {"transposed": transposed, "pointwise in 3-D": pointwise}.items():
        mixed = replace(form, dtypes=biased)
        yield Form(name=f"{name} with a FLOAT bias", call=mixed, keeps_dtypes=True)


def _limits() -> Iterator[Form]:
    """Forms at each limit that memory allows, in every rank that has it."""
    tried: set[tuple[str, int, int, bool]] = set()  # the page repeats limits of the cube
    for bound in BOUNDS:
        limit = bound.limit
        if limit.most is None or limit.most > _MOST_TRIED:
            continue
        for rank in bound.ranks:
            key = (limit.parameter, rank, limit.most, bool(bound.transposed))
            if key not in tried:
                tried.add(key)
                call = at_limit(bound, rank, limit.most)
                name = f"limit of {limit.parameter} in {rank - 2}-D"
                yield Form(name=name, call=call, is_limit=True)
