"""Recorded calls as cases: the result of each convolution, unfold or fold, and its gradients.

A dump names calls "Functional.conv2d.0.forward" and "Functional.conv2d.0.backward", with their
arguments, or a direct call of the gradient "Aten.convolution_backward.0.forward".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
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
from opserve_kernels.cases.forms.convolutions import ConvolutionShape
from opserve_kernels.cases.forms.form import Call
from opserve_kernels.cases.readers.read import (
    Inexpressible,
    Request,
    accepted,
    case_from,
    dtype_named,
)
from opserve_kernels.cases.reading import STORAGE_ELEMENTS
from opserve_kernels.cases.supported import supported
from opserve_kernels.errors import rejection
from opserve_kernels.operators.conv_tbc.cases.calls import TbcLayerCall
from opserve_kernels.operators.conv_tbc_backward.cases.calls import TbcCall
from opserve_kernels.operators.convolution.cases.calls import LayerCall
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.operators.im2col.cases.calls import UnfoldCall
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
_FOLD, _UNFOLD, _TBC = "Functional.fold", "Functional.unfold", "Torch.conv_tbc"
_PLANE = 2  # axes of a fold
_MOST_AXES = 3
_TBC_RANKS = {"input": 3, "weight": 3, "bias": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCase:
    """A case with the records of its inputs.

    Attributes:
        case: The call; its fills are those of drawn inputs.
        inputs: Records of the inputs, by name.
    """

    case: Case
    inputs: Mapping[str, Recorded]


def cases_of_call(
    function: str, forward: Entry | None, backward: Entry | None, setting: Setting
) -> Iterator[RecordedCase | Inexpressible]:
    """Yields the result and the gradients of a recorded call, each as a case or the reason why not.

    Args:
        function: Name of the function, one of PARAMETERS.
        forward: Its forward record; None without one.
        backward: Its backward record; None without one, and without gradients.
        setting: Profile, tags and source of the cases.
    """
    if forward is None:
        reason = "the dump has no record of the forward call, which has the arguments"
        yield Inexpressible(reason)
        return
    parts: list[Callable[[], RecordedCase]] = [partial(_result_of, function, forward, setting)]
    if backward is not None and function != _GRADIENT:
        parts.append(partial(_gradients_of, function, forward, backward, setting))
    for part in parts:
        try:
            yield part()
        except Inexpressible as reason:
            yield reason


def _result_of(function: str, forward: Entry, setting: Setting) -> RecordedCase:
    given = arguments_of(PARAMETERS[function], forward)
    if function == _GRADIENT:
        return _gradients(given, given.tensor("grad_output"), _flags(given), setting)
    if function == _FOLD:
        return _fold(given, given.tensor("input"), setting)
    if function == _UNFOLD:
        return _unfold(given, given.tensor("input"), setting)
    if function == _TBC:
        return _tbc_layer(given, setting)
    return _layer(given, function, tensors_of(forward.get("output", [])), setting)


def _gradients_of(function: str, forward: Entry, backward: Entry, setting: Setting) -> RecordedCase:
    given = arguments_of(PARAMETERS[function], forward)
    gradients = tensors_of(backward.get("input", []))
    if not gradients:
        raise Inexpressible("the record of the backward call has no output gradient")
    gradient = gradients[0]
    if function == _FOLD:
        return _unfold(given, gradient, setting)
    if function == _UNFOLD:
        return _folded(given, given.tensor("input").shape, gradient, setting)
    if function == _TBC:
        return _tbc_gradients(given, gradient, setting)
    image, weight, bias = map(given.needs_gradient, ("input", "weight", "bias"))
    return _gradients(given, gradient, (image, weight, bias), setting, function=function)


def _flags(given: Arguments) -> Mask:
    match given.flags("output_mask"):
        case (image, weight, bias):
            return image, weight, bias
        case _:
            raise Inexpressible("output_mask: allowed three booleans")


def _layer(
    given: Arguments, function: str, outputs: list[Recorded], setting: Setting
) -> RecordedCase:
    """Returns the convolution; its result has the recorded dtype, or that of the image."""
    image, weight = given.tensor("input"), given.tensor("weight")
    bias = given.optional_tensor("bias")
    output = outputs[0] if outputs else image
    call = LayerCall(
        **_shape_of(given, function).members,
        has_bias=bias is not None,
        dtypes=(_dtype(image), _dtype(weight), _dtype(bias or image), _dtype(output)),
    )
    inputs = {"input": image, "weight": weight} | ({"bias": bias} if bias else {})
    return _recorded(case_from(Request(call=call, setting=setting)), inputs)


def _gradients(
    given: Arguments, gradient: Recorded, mask: Mask, setting: Setting, *, function: str = ""
) -> RecordedCase:
    """Returns the gradients of a convolution."""
    inputs = {
        "grad_output": gradient,
        "input": given.tensor("input"),
        "weight": given.tensor("weight"),
    }
    if not any(mask):
        raise Inexpressible("no argument needs a gradient")
    call = ConvolutionCall(
        **_shape_of(given, function).members,
        mask=mask,
        dtypes=(_dtype(gradient), _dtype(inputs["input"]), _dtype(inputs["weight"])),
    )
    return _recorded(case_from(Request(call=call, setting=setting)), inputs)


def _shape_of(given: Arguments, function: str) -> ConvolutionShape:
    image, weight = given.tensor("input").shape, given.tensor("weight").shape
    axes = len(weight) - 2
    if not 1 <= axes <= _MOST_AXES or len(image) != len(weight):
        wanted = f"{len(weight)}, as weight"
        raise Inexpressible(rejection("input", given=f"{len(image)} dimensions", allowed=wanted))
    transposed = "transpose" in function or given.flag("transposed")
    groups = given.integer("groups", 1)
    channels = weight[0] if transposed else weight[1] * groups
    if groups < 1 or channels != image[1]:
        given_groups = f"{groups} for {image[1]} channels"
        raise Inexpressible(
            rejection("groups", given=given_groups, allowed=f"those of {list(weight)}")
        )
    return ConvolutionShape(
        input=image,
        weight=weight,
        stride=given.row("stride", axes, 1),
        padding=_padding(given, weight[2:]),
        dilation=given.row("dilation", axes, 1),
        output_padding=given.row("output_padding", axes, 0),
        groups=groups,
        transposed=transposed,
    )


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


def _tbc_layer(given: Arguments, setting: Setting) -> RecordedCase:
    image, weight, bias = _tbc_tensors(given)
    call = TbcLayerCall(
        image=image.shape,
        weight=weight.shape,
        pad=given.integer("pad", 0),
        dtypes=(_dtype(image), _dtype(bias)),
    )
    inputs = {"self": image, "weight": weight, "bias": bias}
    return _recorded(_case(call, call.out, setting), inputs)


def _tbc_gradients(given: Arguments, gradient: Recorded, setting: Setting) -> RecordedCase:
    image, weight, bias = _tbc_tensors(given)
    call = TbcCall(
        image=image.shape,
        weight=weight.shape,
        pad=given.integer("pad", 0),
        dtypes=(_dtype(gradient), _dtype(image), _dtype(weight), _dtype(bias)),
    )
    inputs = {"self": gradient, "input": image, "weight": weight, "bias": bias}
    return _recorded(_case(call, call.output, setting), inputs)


def _tbc_tensors(given: Arguments) -> tuple[Recorded, Recorded, Recorded]:
    for name, rank in _TBC_RANKS.items():
        shape = list(given.tensor(name).shape)
        if len(shape) != rank:
            allowed = f"{rank} dimensions"
            raise Inexpressible(rejection(name, given=f"the shape {shape}", allowed=allowed))
    return given.tensor("input"), given.tensor("weight"), given.tensor("bias")


def _fold(given: Arguments, columns: Recorded, setting: Setting) -> RecordedCase:
    kernel = given.row("kernel_size", _PLANE, 1)
    blocks = max(1, prod(kernel))
    if len(columns.shape) not in {_PLANE, _PLANE + 1} or columns.shape[-2] % blocks:
        raise Inexpressible(f"input: the shape {list(columns.shape)} is none of columns")
    image = given.row("output_size", _PLANE, 0)
    out = (*columns.shape[:-2], columns.shape[-2] // blocks, *image)
    return _folded(given, out, columns, setting)


def _folded(given: Arguments, out: Row, columns: Recorded, setting: Setting) -> RecordedCase:
    """Returns the call that sums columns into an image."""
    _check_image(out)
    dtype = _dtype(columns)
    call = FoldCall(out=out, dtypes=(dtype, dtype), **_blocks(given))
    return _recorded(_case(call, out, setting), {"grad_output": columns})


def _unfold(given: Arguments, image: Recorded, setting: Setting) -> RecordedCase:
    """Returns the call that copies an image into columns."""
    _check_image(image.shape)
    dtype = _dtype(image)
    call = UnfoldCall(image=image.shape, dtypes=(dtype, dtype), **_blocks(given))
    return _recorded(_case(call, image.shape, setting), {"self": image})


def _check_image(shape: Row) -> None:
    if len(shape) not in {_PLANE + 1, _PLANE + 2}:
        raise Inexpressible(
            f"the image has the shape {list(shape)}; only (N,) C, H, W is supported."
        )


def _blocks(given: Arguments) -> dict[str, Row]:
    rows = {
        "kernel": given.row("kernel_size", _PLANE, 1),
        "stride": given.row("stride", _PLANE, 1),
        "dilation": given.row("dilation", _PLANE, 1),
    }
    padding = given.row("padding", _PLANE, 0)
    if min(map(min, rows.values())) < 1 or min(padding) < 0:
        raise Inexpressible("kernel_size, stride, padding or dilation is out of range")
    return {**rows, "padding": padding}


def _case(call: Call, result: Row, setting: Setting) -> Case:
    """Returns the case of a call with a result of some shape, if the profile has it."""
    if min(result) < 1 or prod(result) > STORAGE_ELEMENTS:
        raise Inexpressible(f"the shape {list(result)} is out of range")
    made = call.case(setting)
    if min(min(tensor.shape) for tensor in made.tensors.values()) < 1:
        raise Inexpressible("a tensor has no elements")
    case = supported(made)
    if case is None:
        dtypes = ", ".join(dict.fromkeys(tensor.dtype for tensor in made.tensors.values()))
        raise Inexpressible(f"{setting.profile} has no {made.operator} in {dtypes}")
    return accepted(case)


def _recorded(case: Case, inputs: Mapping[str, Recorded]) -> RecordedCase:
    """Returns the case with the records of its inputs, which have the shapes of its tensors."""
    found = {name: inputs[name] for name in case.inputs}
    for name, record in found.items():
        shape = case.tensors[name].shape
        if record.shape != shape:
            raise Inexpressible(
                rejection(name, given=f"the shape {list(record.shape)}", allowed=list(shape))
            )
    return RecordedCase(case=case, inputs=found)


def _dtype(tensor: Recorded) -> DataType:
    return dtype_named(tensor.dtype, _DTYPES)
