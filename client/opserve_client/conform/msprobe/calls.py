"""Recorded calls as cases: each pair of a forward and a backward record of a convolution or fold.

A dump names calls "Functional.conv2d.0.forward" and "Functional.conv2d.0.backward", with their
arguments, or a direct call of the gradient "Aten.convolution_backward.0.forward".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from opserve_client.conform.msprobe.arguments import (
    PARAMETERS,
    Arguments,
    Recorded,
    arguments_of,
    tensors_of,
)
from opserve_kernels.cases.calls import Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.readers.read import Inexpressible, Request, case_from, dtype_named
from opserve_kernels.cases.reading import STORAGE_ELEMENTS
from opserve_kernels.cases.supported import supported
from opserve_kernels.errors import rejection
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType

Entry = Mapping[str, object]
_DTYPES: Mapping[str, DataType] = {
    "float32": DataType.FLOAT,
    "float16": DataType.FLOAT16,
    "bfloat16": DataType.BF16,
    "float64": DataType.DOUBLE,
}
_GRADIENT = "Aten.convolution_backward"
_FOLD, _UNFOLD = "Functional.fold", "Functional.unfold"
_PLANE = 2  # axes of a fold
_MOST_AXES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCase:
    """A case with the records of its inputs.

    Attributes:
        case: The call; its fills are those of drawn inputs.
        inputs: Records of the inputs, by name.
    """

    case: Case
    inputs: Mapping[str, Recorded]


def case_of_call(
    function: str, forward: Entry | None, backward: Entry | None, setting: Setting
) -> RecordedCase:
    """Returns the gradient of a recorded call as a case.

    Args:
        function: Name of the function, one of PARAMETERS.
        forward: Its forward record; None without one.
        backward: Its backward record; None without one.
        setting: Profile, tags and source of the case.

    Raises:
        Inexpressible: The records do not describe a gradient that the profile supports.
    """
    if forward is None:
        raise Inexpressible("the dump has no record of the forward call, which has the arguments")
    given = arguments_of(PARAMETERS[function], forward)
    if function == _FOLD:
        return _fold(given, given.tensor("input"), setting)
    if function == _GRADIENT:
        return _convolution(given, given.tensor("grad_output"), _flags(given), setting)
    if backward is None:
        raise Inexpressible("the dump has no record of the backward call")
    gradients = tensors_of(backward.get("input", []))
    if not gradients:
        raise Inexpressible("the record of the backward call has no output gradient")
    if function == _UNFOLD:
        return _unfold(given, gradients[0], setting)
    mask = (
        given.needs_gradient("input"),
        given.needs_gradient("weight"),
        given.needs_gradient("bias"),
    )
    return _convolution(given, gradients[0], mask, setting, function=function)


def _flags(given: Arguments) -> Mask:
    match given.flags("output_mask"):
        case (image, weight, bias):
            return image, weight, bias
        case _:
            raise Inexpressible("output_mask: allowed three booleans")


def _convolution(
    given: Arguments, gradient: Recorded, mask: Mask, setting: Setting, *, function: str = ""
) -> RecordedCase:
    inputs = {
        "grad_output": gradient,
        "input": given.tensor("input"),
        "weight": given.tensor("weight"),
    }
    image, weight = inputs["input"].shape, inputs["weight"].shape
    axes = len(weight) - 2
    if not 1 <= axes <= _MOST_AXES or len(image) != len(weight):
        wanted = f"{len(weight)}, as weight"
        raise Inexpressible(rejection("input", given=f"{len(image)} dimensions", allowed=wanted))
    if not any(mask):
        raise Inexpressible("no argument needs a gradient")
    transposed = "transpose" in function or given.flag("transposed")
    groups = given.integer("groups", 1)
    channels = weight[0] if transposed else weight[1] * groups
    if groups < 1 or channels != image[1]:
        given_groups = f"{groups} for {image[1]} channels"
        raise Inexpressible(
            rejection("groups", given=given_groups, allowed=f"those of {list(weight)}")
        )
    call = ConvolutionCall(
        input=image,
        weight=weight,
        stride=given.row("stride", axes, 1),
        padding=_padding(given, weight[2:]),
        dilation=given.row("dilation", axes, 1),
        output_padding=given.row("output_padding", axes, 0),
        groups=groups,
        transposed=transposed,
        mask=mask,
        dtypes=(_dtype(gradient), _dtype(inputs["input"]), _dtype(inputs["weight"])),
    )
    if call.output != gradient.shape:
        shape = f"the shape {list(gradient.shape)}"
        raise Inexpressible(rejection("grad_output", given=shape, allowed=list(call.output)))
    return RecordedCase(case=case_from(Request(call=call, setting=setting)), inputs=inputs)


def _padding(given: Arguments, kernel: Row) -> Row:
    """Returns the padding of each axis; "same" keeps the sizes of the image."""
    match given.text("padding"):
        case "":
            return given.row("padding", len(kernel), 0)
        case "valid":
            return (0,) * len(kernel)
        case "same":
            reaches = [
                apart * (taps - 1)
                for apart, taps in zip(given.row("dilation", len(kernel), 1), kernel, strict=True)
            ]
            if any(reach % 2 for reach in reaches):
                raise Inexpressible(
                    "padding 'same' differs by side here; only equal sides are supported."
                )
            return tuple(reach // 2 for reach in reaches)
        case other:
            raise Inexpressible(
                rejection("padding", given=repr(other[:64]), allowed="integers, same, valid")
            )


def _fold(given: Arguments, columns: Recorded, setting: Setting) -> RecordedCase:
    kernel = given.row("kernel_size", _PLANE, 1)
    blocks = max(1, prod(kernel))
    if len(columns.shape) not in {_PLANE, _PLANE + 1} or columns.shape[-2] % blocks:
        raise Inexpressible(f"input: the shape {list(columns.shape)} is none of columns")
    image = given.row("output_size", _PLANE, 0)
    out = (*columns.shape[:-2], columns.shape[-2] // blocks, *image)
    return _folded(given, out, kernel, columns, setting)


def _unfold(given: Arguments, gradient: Recorded, setting: Setting) -> RecordedCase:
    image = given.tensor("input").shape
    return _folded(given, image, given.row("kernel_size", _PLANE, 1), gradient, setting)


def _folded(
    given: Arguments, out: Row, kernel: Row, columns: Recorded, setting: Setting
) -> RecordedCase:
    """Returns the call that sums columns into an image."""
    rows = {
        "stride": given.row("stride", _PLANE, 1),
        "padding": given.row("padding", _PLANE, 0),
        "dilation": given.row("dilation", _PLANE, 1),
    }
    if min(*rows["stride"], *rows["dilation"], *kernel) < 1 or min(rows["padding"]) < 0:
        raise Inexpressible("kernel_size, stride, padding or dilation is out of range")
    if len(out) not in {_PLANE + 1, _PLANE + 2} or not 0 < prod(out) <= STORAGE_ELEMENTS:
        raise Inexpressible(f"the image has the shape {list(out)}; only (N,) C, H, W is supported.")
    dtype = _dtype(columns)
    call = FoldCall(out=out, kernel=kernel, dtypes=(dtype, dtype), **rows)
    case = supported(call.case(setting))
    if case is None:
        raise Inexpressible(f"{setting.profile} does not sum columns in {dtype}")
    if case.tensors["grad_output"].shape != columns.shape:
        allowed = list(case.tensors["grad_output"].shape)
        raise Inexpressible(
            rejection("columns", given=f"the shape {list(columns.shape)}", allowed=allowed)
        )
    return RecordedCase(case=case, inputs={"grad_output": columns})


def _dtype(tensor: Recorded) -> DataType:
    return dtype_named(tensor.dtype, _DTYPES)
