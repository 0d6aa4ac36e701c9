"""Every operator's tensors as operands of a convolution in plain order, and gradients as outputs.

Operators on blocks multiply whole superblocks, which are groups here.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from conformance.faulty.correct import Array, Call, Operands, Row
from kernels.oracles.deconv_grad_filter import numbers_of
from kernels.oracles.superblocks import BLOCK, dense_shape, extend_of
from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import Format

_SPATIAL_2D = 2
_OUT_OF_BLOCKS = (0, 4, 5, 1, 6, 2, 3)  # superblock, C1, KH, KW, N1, lanes of N and C, of FRACTAL_Z
_INTO_BLOCKS = (0, 3, 5, 6, 1, 2, 4)
_TBC_TO_NCL, _NCL_TO_TBC, _TBC_WEIGHT = (1, 2, 0), (2, 0, 1), (2, 1, 0)
_CHANNELS_LAST = (0, 2, 3, 4, 1)
_TAPS_LAST, _TAPS_FIRST = (0, 2, 3, 4, 1), (0, 3, 4, 2, 1)  # of (group, ic, oc, taps)


def call_of(case: Case, given: Operands) -> Call:
    """The call that a case describes, of its inputs."""
    return _CALLS[case.operator](case, given)


def superblocks_of(case: Case) -> tuple[Row, int, int]:
    """Their number with the channels and taps of one; groups in all, and in one of them."""
    sizes = cast("Row", case.arguments["filter_sizes"])
    members = cast("Mapping[str, Any]", case.arguments.get("para_dict", {}))
    groups = members.get("group_dict", members).get("groups", 1)
    return dense_shape(sizes, groups), groups, extend_of(sizes, groups)


def lanes_swapped(weight: Array) -> Array:
    """A weight with the lanes of output and input channels exchanged in every block."""
    outputs, inputs, *taps = weight.shape
    blocks = weight.reshape(outputs // BLOCK, BLOCK, inputs // BLOCK, BLOCK, *taps)
    return blocks.swapaxes(1, 3).reshape(weight.shape)


def rows_laid(case: Case, order: str) -> Callable[[Array], Array]:
    """A gradient (in_c, out_c/group, taps) as dw_data has it, its rows in an order."""
    groups = case.tensors["dw_data"].shape[0]
    axes = _TAPS_FIRST if order == "kh_kw_oc" else _TAPS_LAST

    def laid(weight: Array) -> Array:
        inputs, *others = weight.shape
        return weight.reshape(groups, inputs // groups, *others).transpose(axes)

    return laid


def blocks_laid(case: Case, *, raw: bool) -> Callable[[Array], Array]:
    """A gradient of dense superblocks in FRACTAL_Z, zeros off their diagonals unless raw."""
    shape, groups, extend = superblocks_of(case)
    count, outputs, inputs, *_ = shape
    sizes = cast("Row", case.arguments["filter_sizes"])
    rows, columns = np.arange(outputs) // (sizes[0] // groups), np.arange(inputs) // sizes[1]
    real = (rows < extend) & (np.arange(count)[:, None] * extend + rows < groups)
    belongs = real[..., None] & (rows[:, None] == columns)

    def laid(weight: Array) -> Array:
        dense = weight.reshape(shape)
        if not raw:
            dense = np.where(belongs[..., None, None], dense, 0)
        split = dense.reshape(count, outputs // BLOCK, BLOCK, inputs // BLOCK, BLOCK, *shape[3:])
        return split.transpose(_INTO_BLOCKS)

    return laid


def is_channels_last(case: Case, name: str) -> bool:
    """Whether a tensor is in NDHWC."""
    return case.tensors[name].format is Format.NDHWC


def _convolution(case: Case, given: Operands) -> Call:
    arguments = cast("Mapping[str, Any]", case.arguments)
    padding, axes = arguments["padding"], len(arguments["stride"])
    is_by_side = axes == _SPATIAL_2D and len(padding) > axes
    names = {"grad_input": "image", "grad_weight": "weight", "grad_bias": "bias"}
    return Call(
        case=case,
        operands=given,
        gradients={names[output]: output for output in case.written},
        channels=given["grad_output"].shape[1],
        stride=arguments["stride"],
        padding=padding[::2] if is_by_side else padding,
        after=padding[1::2] if is_by_side else padding,
        dilation=arguments["dilation"],
        output_padding=arguments["output_padding"],
        groups=arguments["groups"],
        transposed=arguments["transposed"],
    )


def _tbc(case: Case, given: Operands) -> Call:
    pad = cast("int", case.arguments["pad"])
    images = {"grad_output": given["self"], "input": given["input"], "bias": given["bias"]}
    operands = {name: image.transpose(_TBC_TO_NCL) for name, image in images.items()}
    return Call(
        case=case,
        operands=operands | {"weight": given["weight"].transpose(_TBC_WEIGHT)},
        gradients={"image": "grad_input", "weight": "grad_weight", "bias": "grad_bias"},
        channels=given["self"].shape[2],
        stride=(1,),
        padding=(pad,),
        after=(pad,),
        dilation=(1,),
        order={"image": _NCL_TO_TBC, "weight": _TBC_WEIGHT},
    )


def _layer(case: Case, given: Operands) -> Call:
    """A forward convolution: the gradient of the input of its transposed counterpart."""
    arguments = cast("Mapping[str, Any]", case.arguments)
    stride, padding = arguments["stride"], arguments["padding"]
    is_by_side = len(padding) > len(stride)
    plain = {name: _channels_first(case, name, given[name]) for name in ("input", "weight")}
    output = _channels_first(case, "output", np.zeros(case.tensors["output"].shape))
    operands = {
        "grad_output": plain["input"],
        "weight": plain["weight"],
        "input": output.astype(plain["input"].dtype),
    }
    return Call(
        case=case,
        operands=operands | ({"added": given["bias"]} if "bias" in given else {}),
        gradients={"image": "output"},
        channels=plain["input"].shape[1],
        stride=stride,
        padding=padding[::2] if is_by_side else padding,
        after=padding[1::2] if is_by_side else padding,
        dilation=arguments["dilation"],
        groups=arguments["groups"],
        transposed=not arguments["transposed"],
        order={"image": _CHANNELS_LAST} if is_channels_last(case, "output") else {},
    )


def _depthwise(case: Case, given: Operands) -> Call:
    """The gradient of the input of a transposed convolution in groups of a channel."""
    arguments = cast("Mapping[str, Any]", case.arguments)
    image = given["self"]
    out = np.zeros(case.tensors["out"].shape, image.dtype)
    weight = given["weight"][:, : image.shape[1]]  # without channels, of none
    operands = {"grad_output": image, "weight": weight, "input": out}
    return Call(
        case=case,
        operands=operands | ({"added": given["bias"]} if "bias" in given else {}),
        gradients={"image": "out"},
        channels=image.shape[1],
        stride=arguments["stride"],
        padding=arguments["padding"],
        after=arguments["padding"],
        dilation=arguments["dilation"],
        groups=max(image.shape[1], 1),
        transposed=True,
    )


def _tbc_layer(case: Case, given: Operands) -> Call:
    """The same for images (T, B, C)."""
    pad = cast("int", case.arguments["pad"])
    image = given["self"].transpose(_TBC_TO_NCL)
    out = np.zeros(case.tensors["out"].shape, image.dtype).transpose(_TBC_TO_NCL)
    weight = given["weight"].transpose(_TBC_WEIGHT)
    return Call(
        case=case,
        operands={"grad_output": image, "weight": weight, "input": out, "added": given["bias"]},
        gradients={"image": "out"},
        channels=image.shape[1],
        stride=(1,),
        padding=(pad,),
        after=(pad,),
        dilation=(1,),
        transposed=True,
        order={"image": _NCL_TO_TBC},
    )


def _channels_first(case: Case, name: str, array: Array) -> Array:
    return np.moveaxis(array, -1, 1) if is_channels_last(case, name) else array


def _columns(case: Case, given: Operands) -> Call:
    arguments = cast("Mapping[str, Any]", case.arguments)
    names = ("input_size", "kernel_size", "stride", "padding", "dilation")
    places = [
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in zip(
            *(arguments[name] for name in names), strict=True
        )
    ]
    columns = given["grad_output"]
    image = np.zeros((1, *case.tensors["out"].shape)[-4:], columns.dtype)
    shape = (*image.shape[:2], *arguments["kernel_size"], *places)
    return Call(
        case=case,
        operands={"columns": columns.reshape(shape), "input": image},
        gradients={"fold": "out"},
        channels=image.shape[1],
        stride=arguments["stride"],
        padding=arguments["padding"],
        after=arguments["padding"],
        dilation=arguments["dilation"],
    )


def _pixels(case: Case, given: Operands) -> Call:
    arguments = cast("Mapping[str, Any]", case.arguments)
    names = ("kernel_size", "stride", "padding", "dilation")
    image = given["self"].reshape((-1, *given["self"].shape)[-4:])
    places = (
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in zip(
            image.shape[2:], *(arguments[name] for name in names), strict=True
        )
    )
    return Call(
        case=case,
        operands={"pixels": image},
        gradients={"unfold": "out"},
        channels=image.shape[1],
        stride=arguments["stride"],
        padding=arguments["padding"],
        after=arguments["padding"],
        dilation=arguments["dilation"],
        columns=(*arguments["kernel_size"], *places),
    )


def _blocks(case: Case, given: Operands) -> Call:
    """The gradient of the image if filters are given, else that of the weight."""
    shape, _, _ = superblocks_of(case)
    count, outputs, inputs, *taps = shape
    members = cast("Mapping[str, Any]", case.arguments.get("para_dict", {}))
    padding = members.get("padding", (0,) * 4)
    grad_output = _plain(given["out_backprop"], count * outputs)
    if "filters" in given:
        weight = _dense(given["filters"], shape)
        batch, _, *size = cast("Row", case.arguments["input_sizes"])
        image = np.zeros((batch, count * inputs, *size), weight.dtype)
        gradients, laid = {"image": "res_tensor"}, _image_laid(case)
    else:
        image = _plain(given["input_x"], count * inputs)
        weight = np.zeros((count * outputs, inputs, *taps), image.dtype)
        gradients = {"weight": "res_tensor"}
        laid = blocks_laid(case, raw=bool(case.arguments.get("raw")))
    return Call(
        case=case,
        operands={"grad_output": grad_output, "input": image, "weight": weight},
        gradients=gradients,
        channels=cast("Row", case.arguments["filter_sizes"])[0],
        stride=members.get("strides", (1, 1)),
        padding=padding[::2],
        after=padding[1::2],
        dilation=members.get("dilations", (1,) * 4)[2:],
        groups=count,
        laid=laid,
    )


def _deconvolution(case: Case, given: Operands) -> Call:
    """A convolution that reads dy_data and writes x_data has the same gradient of its weight."""
    numbers = numbers_of(cast("Mapping[str, Any]", case.arguments))
    image, grad_output = (np.moveaxis(given[name], 3, 1) for name in ("dy_data", "x_data"))
    kernel = (numbers["kernel_h"], numbers["kernel_w"])
    weight = (grad_output.shape[1], image.shape[1] // numbers["group"], *kernel)
    padding = (numbers["pad_u"], numbers["pad_l"])
    return Call(
        case=case,
        operands={
            "grad_output": grad_output,
            "input": image,
            "weight": np.zeros(weight, image.dtype),
        },
        gradients={"weight": "dw_data"},
        channels=grad_output.shape[1],
        stride=(numbers["stride_h"], numbers["stride_w"]),
        padding=padding,
        after=padding,
        dilation=(numbers["dilation_h"], numbers["dilation_w"]),
        groups=numbers["group"],
        laid=rows_laid(case, numbers["row_order"]),
    )


def _plain(image: Array, channels: int) -> Array:
    """An image (N, C1, H, W, 16) as (N, channels, H, W); what it lacks is zero."""
    batch, blocks, high, wide, lanes = image.shape
    plain = np.zeros((batch, max(channels, blocks * lanes), high, wide), image.dtype)
    plain[:, : blocks * lanes] = np.moveaxis(image, 4, 2).reshape(batch, -1, high, wide)
    return plain[:, :channels]


def _image_laid(case: Case) -> Callable[[Array], Array]:
    batch, blocks, high, wide, lanes = case.tensors["res_tensor"].shape

    def laid(plain: Array) -> Array:
        split = plain[:, : blocks * lanes].reshape(batch, blocks, lanes, high, wide)
        return np.moveaxis(split, 2, 4)

    return laid


def _dense(fractal: Array, shape: Row) -> Array:
    """A weight in FRACTAL_Z as (superblocks * output channels, input channels, taps)."""
    count, outputs, inputs, *taps = shape
    split = fractal.reshape(count, inputs // BLOCK, *taps, outputs // BLOCK, BLOCK, BLOCK)
    return split.transpose(_OUT_OF_BLOCKS).reshape(count * outputs, inputs, *taps)


_CALLS: Mapping[str, Callable[[Case, Operands], Call]] = {
    "convolution_backward": _convolution,
    "convolution": _layer,
    "conv_depthwise2d": _depthwise,
    "conv_tbc": _tbc_layer,
    "im2col_backward": _columns,
    "im2col": _pixels,
    "conv2d_backprop_input": _blocks,
    "conv2d_backprop_filter": _blocks,
    "deconv_grad_filter": _deconvolution,
    "conv_tbc_backward": _tbc,
}
OPERATORS = tuple(_CALLS)
