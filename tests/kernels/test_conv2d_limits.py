"""Documented limits of the TBE operators: at them, one below and one above."""

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples import conv2d_backprop_filter as dw
from kernels.samples import conv2d_backprop_input as dx
from kernels.samples.para_dicts import changed
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import TbeStatus

_E = TbeStatus
_ROW = 2**31 - 1


def _refusal(sample: Sample) -> tuple[Any, str]:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    return refusal.value.status, refusal.value.parameter


def _vast(sample: Sample) -> Sample:
    """The same call with one element behind each tensor."""
    tensors = {
        name: None if tensor is None else replace(tensor, strides=(0,) * len(tensor.shape))
        for name, tensor in sample.tensors.items()
    }
    return replace(sample, tensors=tensors)


def _dx_sizes(height: int, width: int, kernel: tuple[int, int], **changes: Any) -> Sample:
    return _vast(dx.gradient("limit", (1, 16, height, width), (16, 16, *kernel), **changes))


def _dw_sizes(height: int, width: int, kernel: tuple[int, int], **changes: Any) -> Sample:
    return _vast(dw.gradient("limit", (1, 16, height, width), (16, 16, *kernel), **changes))


_DX_VAST = _vast(dx.gradient("vast", (2**59, 16, 1, 1), (16, 16, 1, 1)))
_DW_VAST = _vast(dw.gradient("vast", (2**59, 16, 1, 1), (16, 16, 1, 1), groups=1))


def _dw_kernel(n: int) -> Sample:
    sample = _dw_sizes(2, 600, (1, max(n, 1)), dilations=(1, 1, 1, 2))
    return changed(sample, "kernel", {"filter_sizes": (16, 16, 1, n)})


def _dw_stride(n: int) -> Sample:
    sample = _dw_sizes(2, 600, (1, 2), strides=(1, max(n, 1)), dilations=(1, 1, 1, 2))
    return changed(sample, "stride", {"para_dict.strides": (1, n)})


_Call = Callable[[int], Sample]
_Refusal = tuple[TbeStatus, str]
_Row = tuple[str, str, str, int, int]

_DEVICES = {
    "conv2d_backprop_input": {"ascend910b", "ascend910", "ascend310p", "ascend310b", "ascend310"},
    "conv2d_backprop_filter": {"ascend910b", "ascend910", "ascend310"},
}
_ON_GRID = "width times its stride, and times the height's stride for a kernel of 1 x 1"
_ONE_ROW = "where padded image, dilated kernel and out_backprop have one row"
_LONG_ROW = "width, in one row or where the vendor computes by DMA"
_DILATED = "height and width, unless dilations are ones"
_DX_HEIGHT: _Row = ("input", "out_backprop", "height times its stride", 1, 200000)
_DX_WIDTH: _Row = ("input", "out_backprop", _ON_GRID, 1, 4096)
_DX_ROW: _Row = ("input", "out_backprop", f"{_ON_GRID}, {_ONE_ROW}", 1, _ROW)
_DX_IMAGE_HEIGHT: _Row = ("input", "input_sizes", "height", 1, 200000)
_DX_IMAGE_WIDTH: _Row = ("input", "input_sizes", "width", 1, 4096)
_DX_IMAGE_ROW: _Row = ("input", "input_sizes", f"width, {_ONE_ROW}", 1, _ROW)
_DX_DILATION: _Row = ("input", "para_dict.dilations", "height and width", 1, 255)
_KERNEL: _Row = ("filter", "filter_sizes", _DILATED, 1, 255)
_STRIDE: _Row = ("filter", "para_dict.strides", _DILATED, 1, 63)
_DILATION: _Row = ("filter", "para_dict.dilations", "height and width", 1, 255)
_PADDING: _Row = ("filter", "para_dict.padding", "all four sides", 0, 255)
_HEIGHT: _Row = ("filter", "out_backprop", "height", 1, 200000)
_WIDTH: _Row = ("filter", "out_backprop", "width", 1, 4096)
_LONG: _Row = ("filter", "out_backprop", _LONG_ROW, 1, _ROW)
_IMAGE_HEIGHT: _Row = ("filter", "input_x", "height", 1, 200000)
_IMAGE_WIDTH: _Row = ("filter", "input_x", "width", 1, 4096)
_IMAGE_LONG: _Row = ("filter", "input_x", _LONG_ROW, 1, _ROW)

# A call by the value that a limit bounds: the first stays alone below the least value of its
# limit, the second alone above the greatest. A third number: the greatest, where a limit bounds a
# multiple of the value.
_LEAST: tuple[tuple[_Row, _Call], ...] = (
    (_DX_HEIGHT, lambda n: _dx_sizes(n, 1, (1, 1))),
    (_DX_WIDTH, lambda n: _dx_sizes(2, n, (1, 1))),
    (_DX_ROW, lambda n: _dx_sizes(1, n, (1, 1))),
    (_DX_IMAGE_HEIGHT, lambda n: _dx_sizes(n, 1, (2, 1), padding=(2, 0, 0, 0))),
    (_DX_IMAGE_WIDTH, lambda n: _dx_sizes(2, n, (1, 2), padding=(0, 0, 2, 0))),
    (_DX_IMAGE_ROW, lambda n: _dx_sizes(1, n, (1, 2), padding=(0, 0, 2, 0))),
    (_DX_DILATION, lambda n: _dx_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1))),
    (_KERNEL, _dw_kernel),
    (_STRIDE, _dw_stride),
    (_DILATION, lambda n: _dw_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1))),
    (_PADDING, lambda n: _dw_sizes(2, 9, (1, 2), padding=(0, n, 0, 0))),
    (_HEIGHT, lambda n: _dw_sizes(n, 1, (1, 1))),
    (_WIDTH, lambda n: _dw_sizes(2, n, (1, 1))),
    (_LONG, lambda n: _dw_sizes(1, n, (1, 1))),
    (_IMAGE_HEIGHT, lambda n: _dw_sizes(n, 1, (2, 1), padding=(2, 0, 0, 0))),
    (_IMAGE_WIDTH, lambda n: _dw_sizes(2, n, (1, 2), padding=(0, 0, 2, 0))),
    (_IMAGE_LONG, lambda n: _dw_sizes(1, n, (1, 2), padding=(0, 0, 2, 0))),
)
_MOST: tuple[tuple[_Row, _Call, int], ...] = (
    (_DX_HEIGHT, lambda n: _dx_sizes(n, 1, (1, 1)), 200000),
    (_DX_HEIGHT, lambda n: _dx_sizes(2 * n, 1, (2, 1), strides=(2, 1)), 100000),
    (_DX_WIDTH, lambda n: _dx_sizes(2, n, (1, 1)), 4096),
    (_DX_WIDTH, lambda n: _dx_sizes(2, n, (1, 1), strides=(2, 1)), 2048),
    (_DX_WIDTH, lambda n: _dx_sizes(2, n, (2, 1), strides=(2, 1)), 4096),
    (_DX_ROW, lambda n: _dx_sizes(1, n, (1, 1)), _ROW),
    (_DX_IMAGE_HEIGHT, lambda n: _dx_sizes(n, 1, (2, 1)), 200000),
    (_DX_IMAGE_WIDTH, lambda n: _dx_sizes(2, n, (1, 2)), 4096),
    (_DX_IMAGE_ROW, lambda n: _dx_sizes(1, n, (1, 2)), _ROW),
    (_DX_DILATION, lambda n: _dx_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1)), 255),
    (_KERNEL, _dw_kernel, 255),
    (_STRIDE, _dw_stride, 63),
    (_DILATION, lambda n: _dw_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1)), 255),
    (_PADDING, lambda n: _dw_sizes(2, 9, (1, 2), padding=(0, n, 0, 0)), 255),
    (_HEIGHT, lambda n: _dw_sizes(n, 1, (1, 1)), 200000),
    (_WIDTH, lambda n: _dw_sizes(2, n, (1, 1)), 4096),
    (_LONG, lambda n: _dw_sizes(1, n, (1, 1)), _ROW),
    (_IMAGE_HEIGHT, lambda n: _dw_sizes(n, 1, (2, 1)), 200000),
    (_IMAGE_WIDTH, lambda n: _dw_sizes(2, n, (1, 2)), 4096),
    (_IMAGE_LONG, lambda n: _dw_sizes(1, n, (1, 2)), _ROW),
    (_IMAGE_LONG, lambda n: _dw_sizes(2, n, (1, 256)), _ROW),
    (_IMAGE_LONG, lambda n: _dw_sizes(2, n, (1, 1), strides=(1, 64)), _ROW),
)


def _code(row: _Row, of_filter: TbeStatus) -> _Refusal:
    return (_E.E60011 if row[0] == "input" else of_filter, row[1])


@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
@pytest.mark.parametrize(("row", "call"), _LEAST)
def test_limit_holds_one_below_its_least_value_on_every_profile(
    row: _Row, call: _Call, profile: str
) -> None:
    at, one_above, one_below = (
        replace(call(row[3] + step), profile=profile) for step in (0, 1, -1)
    )

    assert plan_of(at).units > 0
    assert plan_of(one_above).units > 0
    assert _refusal(one_below) == _code(row, _E.E64004)


@pytest.mark.parametrize(("row", "call", "most"), _MOST)
def test_limit_holds_one_above_its_greatest_value_but_on_reference(
    row: _Row, call: _Call, most: int
) -> None:
    assert plan_of(call(most - 1)).units > 0
    assert plan_of(call(most)).units > 0
    assert _refusal(call(most + 1)) == _code(row, _E.E64001)
    assert plan_of(replace(call(most + 1), profile="reference")).units > 0


def test_every_documented_limit_is_among_those_of_the_tests() -> None:
    documented = {
        (name.removeprefix("conv2d_backprop_"), *astuple(limit)[:4])
        for name in _DEVICES
        for limit in OPERATORS[name].limits
    }

    assert documented == {row for row, _ in _LEAST} == {row for row, _, _ in _MOST}
    assert len(_LEAST) == len(documented)


@pytest.mark.parametrize("name", _DEVICES)
def test_limits_are_those_of_devices(name: str) -> None:
    assert all(set(limit.profiles) == _DEVICES[name] for limit in OPERATORS[name].limits)


@pytest.mark.parametrize(
    ("sample", "changes", "refusal"),
    [
        (_DX_VAST, {"para_dict.dilations": (1, 2, 1, 1)}, (_E.E60023, "para_dict.dilations")),
        (_DX_VAST, {"para_dict.offset_x": 1}, (_E.E60020, "out_backprop")),
        (_DX_VAST, {}, (_E.E60020, "out_backprop")),
        (_DW_VAST, {"para_dict.padding": (0, 0, 1, 0)}, (_E.E60025, "out_backprop")),
        (_DW_VAST, {"para_dict.padding": (-1, 1, 0, 0)}, (_E.E60020, "out_backprop")),
        (_DW_VAST, {}, (_E.E60020, "out_backprop")),
    ],
)
def test_sizes_beyond_64_bits_are_refused_in_their_place(
    sample: Sample, changes: dict[str, Any], refusal: tuple[TbeStatus, str]
) -> None:
    assert _refusal(changed(sample, "vast", changes)) == refusal


@pytest.mark.parametrize(
    "changes",
    [
        {"out_backprop": {"shape": (1, 1, 2, 5000, 16)}},
        {"filter_sizes": (16, 16, 2, 1)},
        {"input_sizes": (1, 16, 2, 5000)},
    ],
)
def test_a_long_row_is_one_in_padded_image_kernel_and_output(changes: dict[str, Any]) -> None:
    row = _dx_sizes(1, 5000, (1, 1))

    assert plan_of(row).units > 0
    assert _refusal(changed(row, "rows", changes)) == (_E.E60011, "out_backprop")
