"""Documented limits of the TBE operators: at them, one below and one above."""

from collections.abc import Callable
from dataclasses import replace
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

# A call by the value that a limit bounds, its greatest value, and how one more is refused.
_LIMITS: tuple[tuple[Callable[[int], Sample], int, tuple[TbeStatus, str]], ...] = (
    (lambda n: _dx_sizes(n, 1, (1, 1)), 200000, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(2 * n, 1, (1, 1), strides=(2, 1)), 100000, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(n, 1, (2, 1)), 200000, (_E.E60011, "input_sizes")),
    (lambda n: _dx_sizes(2, n, (1, 1)), 4096, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(2, n, (1, 1), strides=(2, 1)), 2048, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(2, n, (2, 1), strides=(2, 1)), 4096, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(2, n, (1, 2)), 4096, (_E.E60011, "input_sizes")),
    (lambda n: _dx_sizes(1, n, (1, 1)), _ROW, (_E.E60011, "out_backprop")),
    (lambda n: _dx_sizes(1, n, (1, 2)), _ROW, (_E.E60011, "input_sizes")),
    (
        lambda n: _dx_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1)),
        255,
        (_E.E60011, "para_dict.dilations"),
    ),
    (lambda n: _dw_sizes(n, 1, (1, 1)), 200000, (_E.E64001, "out_backprop")),
    (lambda n: _dw_sizes(n, 1, (2, 1)), 200000, (_E.E64001, "input_x")),
    (lambda n: _dw_sizes(2, n, (1, 1)), 4096, (_E.E64001, "out_backprop")),
    (lambda n: _dw_sizes(2, n, (1, 2)), 4096, (_E.E64001, "input_x")),
    (lambda n: _dw_sizes(1, n, (1, 1)), _ROW, (_E.E64001, "out_backprop")),
    (lambda n: _dw_sizes(1, n, (1, 2)), _ROW, (_E.E64001, "input_x")),
    (lambda n: _dw_sizes(2, n, (1, 256)), _ROW, (_E.E64001, "input_x")),
    (lambda n: _dw_sizes(2, n, (1, 1), strides=(1, 64)), _ROW, (_E.E64001, "input_x")),
    (
        lambda n: _dw_sizes(3, 9, (1, 3), dilations=(1, 1, n, 1)),
        255,
        (_E.E64001, "para_dict.dilations"),
    ),
    (
        lambda n: _dw_sizes(2, 600, (1, n), dilations=(1, 1, 1, 2)),
        255,
        (_E.E64001, "filter_sizes"),
    ),
    (
        lambda n: _dw_sizes(2, 600, (1, 2), strides=(1, n), dilations=(1, 1, 1, 2)),
        63,
        (_E.E64001, "para_dict.strides"),
    ),
    (
        lambda n: _dw_sizes(2, 9, (1, 2), padding=(0, n, 0, 0)),
        255,
        (_E.E64001, "para_dict.padding"),
    ),
)


@pytest.mark.parametrize(("call", "most", "refusal"), _LIMITS)
def test_limit_holds_one_above_and_neither_at_it_nor_one_below(
    call: Callable[[int], Sample], most: int, refusal: tuple[TbeStatus, str]
) -> None:
    assert plan_of(call(most - 1)).units > 0
    assert plan_of(call(most)).units > 0
    assert _refusal(call(most + 1)) == refusal


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
def test_sizes_beyond_64_bits_are_told_in_their_place(
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


_OPERATORS = ("conv2d_backprop_input", "conv2d_backprop_filter")


def test_every_documented_limit_is_among_those_of_the_test() -> None:
    most = {limit.most for name in _OPERATORS for limit in OPERATORS[name].limits}

    assert most == {200000, 4096, _ROW, 255, 63}


@pytest.mark.parametrize(
    ("most", "below"),
    [
        (_dx_sizes(2, 2, (1, 1)), {"para_dict.dilations": (1, 1, 0, 1)}),
        (_dw_sizes(2, 2, (1, 1), padding=(0,) * 4), {"para_dict.padding": (-1, 1, 0, 0)}),
    ],
)
def test_least_value_is_taken_and_one_below_is_refused(most: Sample, below: dict[str, Any]) -> None:
    assert plan_of(most).units > 0
    assert _refusal(changed(most, "below", below))[1] == next(iter(below))
