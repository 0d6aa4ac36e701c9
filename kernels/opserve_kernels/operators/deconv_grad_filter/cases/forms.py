"""Forms of deconv_grad_filter."""

from collections.abc import Iterator
from dataclasses import replace

from opserve_kernels.cases.calls import Layout
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, row
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.operators.deconv_grad_filter.cases.calls import DeconvolutionCall
from opserve_kernels.operators.deconv_grad_filter.contract import FUNCTION_DTYPES, MOST
from opserve_kernels.tensor import Format

_PLAIN = DeconvolutionCall(x=(2, 3, 4, 2), dy=(2, 5, 5, 3), kernel=(3, 2))
_ALL = DeconvolutionCall(
    x=(2, 3, 4, 4),
    dy=(2, 6, 9, 6),
    kernel=(3, 2),
    stride=(2, 3),
    padding=(2, 1),
    dilation=(3, 2),
    group=2,
)


def forms() -> Iterator[Form]:
    """The forms, simple ones first."""
    calls = {
        "plain": _PLAIN,
        "stride": replace(_PLAIN, dy=(2, 7, 11, 3), stride=(2, 3)),
        "stride beyond the kernel": replace(_PLAIN, dy=(2, 9, 17, 3), kernel=(1, 2), stride=(4, 5)),
        "padding": replace(_PLAIN, x=(2, 4, 5, 2), dy=(2, 5, 4, 3), kernel=(3, 4), padding=(1, 2)),
        "padding beyond the kernel": replace(
            _PLAIN, x=(2, 4, 5, 2), dy=(2, 2, 2, 3), kernel=(2, 2), padding=(3, 4)
        ),
        "dilation": replace(_PLAIN, dy=(2, 9, 8, 3), kernel=(3, 3), dilation=(3, 2)),
        "groups": replace(_PLAIN, x=(2, 3, 4, 6), dy=(2, 5, 5, 9), group=3),
        "depthwise": replace(_PLAIN, x=(2, 3, 4, 5), dy=(2, 5, 5, 5), group=5),
        "depthwise with a multiplier": replace(_PLAIN, x=(2, 3, 4, 3), dy=(2, 5, 5, 6), group=3),
        "all of them": _ALL,
        "kernel of 1": DeconvolutionCall(x=(3, 4, 5, 3), dy=(3, 4, 5, 2), kernel=(1, 1)),
        "one of everything": DeconvolutionCall(x=(1, 1, 1, 1), dy=(1, 1, 1, 1), kernel=(1, 1)),
        "output smaller than implied": replace(_PLAIN, x=(2, 4, 4, 2), dy=(2, 2, 3, 3)),
        "output larger than implied": replace(_PLAIN, dy=(2, 9, 8, 3), kernel=(2, 2)),
        "one row": DeconvolutionCall(x=(2, 1, 7, 2), dy=(2, 1, 9, 3), kernel=(1, 3)),
        "one column": DeconvolutionCall(x=(2, 7, 1, 2), dy=(2, 9, 1, 3), kernel=(3, 1)),
        "many channels": DeconvolutionCall(x=(2, 6, 6, 33), dy=(2, 8, 8, 40), kernel=(3, 3)),
        "a large batch": DeconvolutionCall(
            x=(64, 5, 5, 3), dy=(64, 11, 11, 2), kernel=(3, 3), stride=(2, 2)
        ),
        "taps first": replace(_PLAIN, more={"row_order": "kh_kw_oc"}),
        "taps last, by name": replace(_PLAIN, more={"row_order": "oc_kh_kw"}),
        "taps first, all of them": replace(_ALL, more={"row_order": "kh_kw_oc"}),
        "every core": replace(_ALL, more={"core_mask": 0xFF}),
        "the last core": replace(_PLAIN, more={"core_mask": 0x80}),
        **{f"an array of {count}": replace(_ALL, entries=count) for count in (18, 19, 20)},
    }
    for name, call in calls.items():
        yield Form(name=name, call=call)
    yield from _functions()
    yield from _laid_out()
    yield from _limits()


def drawn(numbers: Numbers) -> DeconvolutionCall:
    """A call of any geometry; any output size is valid."""
    group, batch = between(numbers, 1, 3), between(numbers, 1, 4)
    inner, outer = between(numbers, 1, CHANNELS), between(numbers, 1, CHANNELS)
    return DeconvolutionCall(
        x=(batch, *row(numbers, 2, 1, 9), group * inner),
        dy=(batch, *row(numbers, 2, 1, 15), group * outer),
        kernel=row(numbers, 2, 1, 5),
        stride=row(numbers, 2, 1, 3),
        padding=row(numbers, 2, 0, 3),
        dilation=row(numbers, 2, 1, 3),
        group=group,
    )


def _functions() -> Iterator[Form]:
    for letters, dtype in FUNCTION_DTYPES.items():
        for memory, mask in (("s", {"core_mask": 3}), ("p", {})):
            name = f"{letters}_deconv_grad_filter_{memory}"
            call = replace(_ALL, dtype=dtype, more={"function": name, **mask})
            yield Form(name=name, call=call, keeps_dtypes=True)


def _laid_out() -> Iterator[Form]:
    layouts = {
        "dy_data with gaps": {"dy_data": Layout(strides=(400, 70, 11, 2), offset=5)},
        "x_data channels first": {"x_data": Layout(strides=(24, 4, 1, 12))},
        "x_data repeated over the batch": {"x_data": Layout(strides=(0, 8, 2, 1))},
        "dw_data with gaps": {"dw_data": Layout(strides=(200, 5, 2), offset=3)},
        "dw_data transposed": {"dw_data": Layout(strides=(36, 1, 18))},
        "format ND": {name: Layout(format=Format.ND) for name in ("dy_data", "x_data", "dw_data")},
    }
    for name, layout in layouts.items():
        yield Form(name=name, call=_PLAIN, layouts=layout)


def _limits() -> Iterator[Form]:
    """Forms with the largest possible steps; sizes so large take too much memory."""
    one = DeconvolutionCall(x=(2, 1, 1, 3), dy=(2, 3, 4, 2), kernel=(1, 1))
    calls = {
        "stride": replace(one, stride=(MOST, MOST)),
        "dilation": replace(one, dilation=(MOST, MOST)),
        "padding": replace(one, padding=(MOST, MOST)),
    }
    for name, call in calls.items():
        yield Form(name=f"limit of {name}", call=call, is_limit=True)
