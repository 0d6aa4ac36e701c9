"""Wrong kernels of layers: forward convolutions, their copies into columns, (T, B, C)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import cast

import ml_dtypes
import numpy as np

from conformance.faulty.correct import Array, Call, Row, sums_of, with_bias
from conformance.faulty.fault import Fault, changed, incoming, without_bias
from conformance.faulty.forms import is_channels_last
from conformance.faulty.kernel import Kernel, Sums, nearest, rounded, write
from kernels.oracles.expectation import Doubles
from kernels.oracles.rounding import round_to_half, saturate
from opserve_kernels.cases.arrays import Placed
from opserve_kernels.tensor import DataType

_CONVOLUTION, _COPY = ("convolution",), ("im2col",)
_TBC = ("conv_tbc", "conv_tbc_backward")
_PLANES = ("convolution", "conv_depthwise2d")
_FORWARD = (*_PLANES, "conv_tbc")
_EVERY = (*_FORWARD, "im2col")
_BLOCK, _TILE = 4, 4  # channels; positions of the last dimension
_SIDES_2D = 4
_LEAST_NORMAL = {"float16": 2.0**-14}
_BF16_BITS = np.uint32(0xFFFF0000)
Widths = list[tuple[int, int]]


def _bias_after_rounding(call: Call, sums: Sums) -> Sums:
    """Products are rounded as a result is, and the bias is added to that."""
    if "added" not in call.operands:
        return sums
    products = sums_of(without_bias(call))["image"].astype(np.float64)
    result = rounded(Kernel(), call.case, call.gradients["image"], products)
    return {"image": with_bias(result, call.operands["added"])}


def _half_but_bias(name: str, values: Doubles) -> Doubles:
    return values if name == "bias" else round_to_half(values)


def _bias_of_every_block(call: Call) -> Call:
    """Each block of input channels adds the bias to its part of the sum."""
    if "added" not in call.operands:
        return call
    channels: int = call.operands["grad_output"].shape[1] // call.groups
    return changed(call, added=call.operands["added"] * max(1, -(-channels // _BLOCK)))


def _bias_by_column(call: Call, sums: Sums) -> Sums:
    if "added" not in call.operands:
        return sums
    products = sums_of(without_bias(call))["image"]
    return {"image": products + np.resize(call.operands["added"], products.shape[-1])}


def _read_in_other_format(call: Call) -> Call:
    """The memory of an input in NDHWC, as if it were NCDHW."""
    if not is_channels_last(call.case, "input"):
        return call
    image = call.operands["grad_output"]
    return changed(call, grad_output=np.moveaxis(image, 1, -1).reshape(image.shape))


def _filters_in_turn(call: Call) -> Call:
    """Filters go to groups in turn, as if a weight were (filters, groups)."""
    weight = call.operands["weight"]
    if not call.transposed or not weight.size:
        return call
    rows = weight.reshape(-1, call.groups, *weight.shape[1:]).swapaxes(0, 1)
    return changed(call, weight=rows.reshape(weight.shape))


def _flip_transposed(call: Call) -> Call:
    if call.transposed:
        return call
    weight = call.operands["weight"]
    return changed(call, weight=np.flip(weight, tuple(range(2, weight.ndim))))


def _without_added_rows(call: Call, sums: Sums) -> Sums:
    """Positions that output_padding adds stay 0."""
    if call.transposed:  # a plain convolution is the gradient of a transposed one
        return sums
    image = sums["image"].copy()
    for axis, rows in enumerate(cast("Row", call.case.arguments["output_padding"]), 2):
        np.moveaxis(image, axis, 0)[image.shape[axis] - rows :] = 0
    return {"image": image}


def _swap_taps(call: Call) -> Call:
    """The memory of a weight as if the last two axes had the other order."""
    weight = call.operands["weight"]
    if weight.ndim < _SIDES_2D:
        return call
    return changed(call, weight=weight.swapaxes(-1, -2).reshape(weight.shape))


def _first_of(row: Row) -> Row:
    return row[:1] * len(row)


def _sides_in_other_order(call: Call) -> Call:
    """Up, left, down, right where the vendor has up, down, left, right."""
    sides = cast("Row", call.case.arguments["padding"])
    return replace(call, padding=sides[:2]) if len(sides) == _SIDES_2D else call


def _with_pixels(pad: Callable[[Array, Widths], Array]) -> Callable[[Call], Call]:
    """Pixels in place of padding, which is 0 and in no product."""

    def change(call: Call) -> Call:
        name = incoming(call)
        image = call.operands[name]
        is_read = call.transposed or "pixels" in call.operands
        places = call.columns[2:] or call.operands["input"].shape[2:]
        if not is_read or not image.size or 0 in places:
            return call
        kernel = call.columns[:2] or call.operands["weight"].shape[2:]
        rows = zip(
            *(image.shape[2:], places, kernel, call.stride, call.padding, call.dilation),
            strict=True,
        )
        widths: Widths = [(0, 0), (0, 0)]
        for size, count, taps, step, before, apart in rows:
            reached = (count - 1) * step + (taps - 1) * apart + 1
            widths.append((before, max(0, reached - before - size)))
        padded = changed(call, **{name: pad(image, widths)})
        return replace(padded, padding=(0,) * len(call.padding))

    return change


def _without_tile_tail(_: Call, sums: Sums) -> Sums:
    """Positions beyond whole tiles stay 0."""

    def whole_tiles(array: Array) -> Array:
        kept, size = np.zeros_like(array), array.shape[-1]
        whole = size // _TILE * _TILE
        kept[..., :whole] = array[..., :whole]
        return kept

    return {name: whole_tiles(array) for name, array in sums.items()}


def _without_last_column(call: Call) -> Call:
    name = incoming(call)
    image = call.operands[name].copy()
    image[..., -1:] = 0
    return changed(call, **{name: image})


def _first_entry(call: Call) -> Call:
    name = incoming(call)
    image = call.operands[name]
    return changed(call, **{name: np.broadcast_to(image[:1], image.shape)}) if image.size else call


def _pointwise_without_steps(call: Call) -> Call:
    """A kernel of one tap is a product of matrices, whose columns follow each other."""
    kernel = call.columns[:2] or call.operands["weight"].shape[2:]
    return replace(call, stride=(1,) * len(kernel)) if set(kernel) == {1} else call


def _times_backwards(call: Call) -> Call:
    return changed(call, grad_output=np.flip(call.operands["grad_output"], 2))


def _weight_as_printed(call: Call) -> Call:
    """The memory of a weight (K, Cin, Cout) as the vendor's page prints it: (Cout, Cin, K)."""
    weight = call.operands["weight"]
    return changed(call, weight=weight.transpose(2, 1, 0).reshape(weight.shape))


def _bias_of_first_time(call: Call, sums: Sums) -> Sums:
    if "bias" not in sums:
        return sums
    return {**sums, "bias": call.operands["bias"][..., 0].sum(axis=0)}


def _first_tap(_: Call, sums: Sums) -> Sums:
    if "weight" not in sums:
        return sums
    weight = sums["weight"].copy()
    weight[..., 1:] = 0
    return {**sums, "weight": weight}


def _swapped(first: int, second: int) -> Callable[[Call, Sums], Sums]:
    """Columns (N, C, KH, KW, H, W) in memory with two axes in the other order."""
    return lambda _, sums: {"unfold": sums["unfold"].swapaxes(first, second)}


def _cut_to_bf16(values: Doubles, dtype: DataType) -> Doubles:
    if dtype != DataType.BF16:
        return nearest(values, dtype)
    bits = values.astype(np.float32).view(np.uint32) & _BF16_BITS
    return bits.view(np.float32).astype(np.float64)


def _in_bf16(total: Array) -> Array:
    return total.astype(ml_dtypes.bfloat16).astype(total.dtype)


def _with_bf16_sums(call: Call) -> Call:
    is_bf16 = next(iter(call.case.inputs.values())).dtype == DataType.BF16
    return replace(call, kept=_in_bf16) if is_bf16 else call


def _read_flushed(memory: Placed) -> Array:
    elements = memory.elements.astype(np.float64)
    least = _LEAST_NORMAL.get(memory.elements.dtype.name, 2.0**-126)
    return np.where(np.abs(elements) < least, 0.0, elements)


def _largest_half(values: Doubles, dtype: DataType) -> Doubles:
    result = nearest(values, dtype)
    return saturate(result) if dtype == DataType.FLOAT16 else result


def _nothing_of_nothing(call: Call, sums: Sums) -> Sums:
    """A call without products writes nothing."""
    images = ("grad_output", "weight", "input")
    return sums if all(call.operands[name].size for name in images) else {}


def _in_floats(_: Call, sums: Sums) -> Sums:
    return {name: array.astype(np.float32) for name, array in sums.items()}


def _write_contiguously(memory: Placed, result: Array) -> None:
    """As if the output were contiguous."""
    if memory.storage.size < result.size:
        write(memory, result)
    else:
        memory.storage[: result.size] = result.reshape(-1)


def _fault(description: str, kernel: Kernel, *operators: str) -> Fault:
    return Fault(description=description, kernel=kernel, operators=operators)


FORWARD_FAULTS: Mapping[str, Fault] = {
    "bias after rounding": _fault(
        "The bias is added to rounded sums.", Kernel(finish=_bias_after_rounding), *_FORWARD
    ),
    "bias kept wide": _fault(
        "The bias keeps its bits where the call computes in FLOAT16.",
        Kernel(half=_half_but_bias),
        *_FORWARD,
    ),
    "bias of blocks": _fault(
        "Each block of 4 input channels adds the bias.",
        Kernel(change=_bias_of_every_block),
        *_CONVOLUTION,
        "conv_tbc",
    ),
    "bias of columns": _fault(
        "Each column adds the bias, in place of each channel.",
        Kernel(finish=_bias_by_column),
        *_FORWARD,
    ),
    "bias of one time": _fault(
        "The bias sums the first time alone.",
        Kernel(finish=_bias_of_first_time),
        "conv_tbc_backward",
    ),
    "channels last": _fault(
        "An input in NDHWC is read as NCDHW.", Kernel(change=_read_in_other_format), *_CONVOLUTION
    ),
    "filters in turn": _fault(
        "Filters go to groups in turn.", Kernel(change=_filters_in_turn), *_PLANES
    ),
    "transposed taps": _fault(
        "Taps of transposed convolutions are in reverse order.",
        Kernel(change=_flip_transposed),
        *_CONVOLUTION,
    ),
    "added rows": _fault(
        "Positions that output_padding adds are 0.",
        Kernel(finish=_without_added_rows),
        *_CONVOLUTION,
    ),
    "axes of taps": _fault(
        "Height and width of the taps are swapped.", Kernel(change=_swap_taps), *_PLANES
    ),
    "first dilation": _fault(
        "The first dilation is taken for all.",
        Kernel(change=lambda call: replace(call, dilation=_first_of(call.dilation))),
        *_PLANES,
        *_COPY,
    ),
    "first stride": _fault(
        "The first stride is taken for all.",
        Kernel(change=lambda call: replace(call, stride=_first_of(call.stride))),
        *_PLANES,
        *_COPY,
    ),
    "order of sides": _fault(
        "Four paddings are read as up, left, down, right.",
        Kernel(change=_sides_in_other_order),
        *_CONVOLUTION,
    ),
    "edge repeated": _fault(
        "Padding repeats the edge of the image.",
        Kernel(change=_with_pixels(lambda image, widths: np.pad(image, widths, "edge"))),
        *_EVERY,
    ),
    "padding multiplied": _fault(
        "Padding is multiplied, and 0 times infinity is NaN.",
        Kernel(change=_with_pixels(np.pad)),
        *_FORWARD,
    ),
    "padding of a pooling": _fault(
        "Padding is -infinity.",
        Kernel(
            change=_with_pixels(lambda image, widths: np.pad(image, widths, constant_values=-inf))
        ),
        *_COPY,
    ),
    "tile tail": _fault(
        "Positions of the last dimension that fill no tile of 4 are 0.",
        Kernel(finish=_without_tile_tail),
        *_EVERY,
    ),
    "last column": _fault(
        "The last column of the input is not read.", Kernel(change=_without_last_column), *_EVERY
    ),
    "first entry": _fault(
        "Every entry of the batch reads the first one.", Kernel(change=_first_entry), *_EVERY
    ),
    "pointwise strides": _fault(
        "A kernel of one tap ignores strides.",
        Kernel(change=_pointwise_without_steps),
        *_PLANES,
        *_COPY,
    ),
    "times backwards": _fault(
        "Times of (T, B, C) are read in reverse order.", Kernel(change=_times_backwards), *_TBC
    ),
    "weight as printed": _fault(
        "A weight (K, Cin, Cout) is read as (Cout, Cin, K), as the vendor's page prints it.",
        Kernel(change=_weight_as_printed),
        *_TBC,
    ),
    "gradient of one tap": _fault(
        "Gradients of all taps but the first are 0.",
        Kernel(finish=_first_tap),
        "conv_tbc_backward",
    ),
    "axes of blocks": _fault(
        "Rows of columns go down a block before they go across.",
        Kernel(finish=_swapped(2, 3)),
        *_COPY,
    ),
    "axes of positions": _fault(
        "Columns go down the image before they go across.", Kernel(finish=_swapped(4, 5)), *_COPY
    ),
    "float16 left out": _fault(
        "Operands keep all their bits where the call computes in FLOAT16.",
        Kernel(half=lambda _, values: values),
        *_FORWARD,
        "conv_tbc_backward",
    ),
    "wide results": _fault(
        "Sums of FLOAT16 products are not rounded to FLOAT16 before a wider output.",
        Kernel(passed=lambda _case, _name: []),
        *_FORWARD,
    ),
    "bfloat16 cut": _fault(
        "Results in BF16 are cut instead of rounded.", Kernel(nearest=_cut_to_bf16), *_FORWARD
    ),
    "bfloat16 sums": _fault(
        "Sums of BF16 products are kept in BF16.", Kernel(change=_with_bf16_sums), *_FORWARD
    ),
    "double sums": _fault(
        "Sums of the profile reference are kept in FLOAT.", Kernel(finish=_in_floats), *_EVERY
    ),
    "subnormal operands": _fault(
        "Subnormal operands are read as 0.", Kernel(read=_read_flushed), *_EVERY
    ),
    "largest for infinite": _fault(
        "Results beyond FLOAT16's range are its largest number on every profile.",
        Kernel(nearest=_largest_half),
        *_FORWARD,
    ),
    "nothing written": _fault(
        "A call without products writes nothing.", Kernel(finish=_nothing_of_nothing), *_TBC
    ),
    "strides of outputs": _fault(
        "Outputs are written as if they were contiguous.",
        Kernel(write=_write_contiguously),
        *_EVERY,
    ),
}
