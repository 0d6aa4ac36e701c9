"""ONNX's Conv, ConvTranspose and Col2Im as backward calls, with their expected results.

ConvTranspose is the data gradient of the convolution in the other direction, and Col2Im is
im2col_backward. Conv is a forward call. For any dy, <Conv(x, w), dy> = <x, grad_input> =
<w, grad_weight>: both gradients must give this number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.calls import Row, Setting
from opserve_kernels.cases.case import Case, Fill, Kind
from opserve_kernels.cases.fill import drawn, key_of
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.cases.supported import supported
from opserve_kernels.errors import rejection
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall, Mask
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import NUMPY_DTYPES
from opserve_kernels.verdict.verdict import Check, Status

Array = NDArray[Any]
RELATIVE, ABSOLUTE = 1e-3, 1e-7  # tolerances of ONNX's own test runner
_DRAWN = 3  # number of dy for each Conv: random selections of the result's signs, so no sum cancels
_DTYPES = {dtype.name: kind for kind, dtype in NUMPY_DTYPES.items() if dtype.kind not in "iub"}
_PLANE = 2  # spatial dimensions of a call whose padding may differ by side
_CHOICE = Fill(kind=Kind.INTEGER, bound=1)
_MOST_RANK = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with its data.

    Attributes:
        name: Names of the folder and of the data set.
        operator: ONNX's name.
        profile: Profile of the calls.
        attributes: Integers, lists of integers and texts.
        inputs: Inputs in the node's order; None for an omitted one.
        output: Expected output of the node.
    """

    name: str
    operator: str
    profile: str
    attributes: Mapping[str, int | str | Row]
    inputs: Sequence[Array | None]
    output: Array

    def row(self, name: str, axes: int, default: int) -> Row:
        """Returns an attribute with one number for each axis."""
        given = self.attributes.get(name, (default,) * axes)
        if not isinstance(given, tuple) or len(given) != axes:
            raise Inexpressible(rejection(name, given=repr(given), allowed=f"{axes} integers"))
        return given

    def tensor(self, place: int, name: str) -> Array:
        """Returns a required input."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise Inexpressible(f"{name}: the input is missing")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCase:
    """A call with given operands and expected results.

    Attributes:
        name: Names of the folder and of the data set.
        case: The call; its fills are for runs with random inputs.
        operands: Operands by input.
        outputs: Expected outputs by name.
        products: Expected sum of an output times an operand, by output: the operand's name and the
            sum.
    """

    name: str
    case: Case
    operands: Mapping[str, Array]
    outputs: Mapping[str, Array] = field(default_factory=dict[str, Array])
    products: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])


def cases_of(node: Node) -> Sequence[GivenCase]:
    """Returns the calls of a node.

    Raises:
        Inexpressible: No operator of opserve computes it.
    """
    if node.operator not in _CONVERTERS:
        raise Inexpressible(
            rejection("operator", given=node.operator, allowed=", ".join(_CONVERTERS))
        )
    return _CONVERTERS[node.operator](node)


def check_given(given: GivenCase, outputs: Mapping[str, Array]) -> tuple[Check, ...]:
    """Compares outputs with the expected results, with the tolerances of ONNX's test runner."""
    checks: list[Check] = []
    for name, expected in given.outputs.items():
        wide = expected.astype(np.float64)
        far = np.abs(outputs[name].astype(np.float64) - wide) > ABSOLUTE + RELATIVE * np.abs(wide)
        wrong = int(np.count_nonzero(far | np.isnan(outputs[name])))
        reason = f"{wrong} of {far.size} elements differ from ONNX's"
        checks.append(_check(name, wrong, reason))
    for name, (operand, total) in given.products.items():
        found = _dot(outputs[name], given.operands[operand])
        is_near = abs(found - total) <= ABSOLUTE + RELATIVE * abs(total)
        reason = f"<{name}, {operand}> is {found!r}, ONNX's is {total!r}"
        checks.append(_check(name, 0 if is_near else 1, reason))
    return tuple(checks)


def _check(name: str, wrong: int, reason: str) -> Check:
    status, reason = Status.FAILED if wrong else Status.PASSED, f"{name}: {reason}"
    return Check(name="onnx", tensor=name, status=status, reason=reason, elements=wrong)


def _conv(node: Node) -> Sequence[GivenCase]:
    image, weight = node.tensor(0, "X"), node.tensor(1, "W")
    result = _without_bias(node)
    call = _convolution(node, image.shape, weight.shape, result.shape)
    mask = (True, True, False)
    case = _supported(_in_dtype(call, image.dtype.name, mask).case(_setting(node)))
    found: list[GivenCase] = []
    for turn in range(_DRAWN):
        key = key_of(f"{node.name} {turn}", 0, "grad_output")
        chosen = drawn(key, result.size, _CHOICE, _DTYPES["float64"]).reshape(result.shape)
        signs = np.abs(chosen) * np.sign(result)
        total = _dot(result, signs)
        operands = {"grad_output": signs.astype(image.dtype), "input": image, "weight": weight}
        products = {
            "grad_input": ("input", total),
            "grad_weight": ("weight", total),
        }
        found.append(GivenCase(name=node.name, case=case, operands=operands, products=products))
    return found


def _conv_transpose(node: Node) -> Sequence[GivenCase]:
    image, weight = node.tensor(0, "X"), node.tensor(1, "W")
    result = _without_bias(node)
    call = _convolution(node, result.shape, weight.shape, image.shape)
    mask = (True, False, False)
    case = _supported(_in_dtype(call, image.dtype.name, mask).case(_setting(node)))
    operands = {"grad_output": image, "input": np.zeros_like(result), "weight": weight}
    given = GivenCase(name=node.name, case=case, operands=operands, outputs={"grad_input": result})
    return (given,)


def _col2im(node: Node) -> Sequence[GivenCase]:
    columns = node.tensor(0, "input")
    image, block = (
        tuple(int(size) for size in node.tensor(place, name).reshape(-1))
        for place, name in ((1, "image_shape"), (2, "block_shape"))
    )
    axes = len(image)
    if axes != _PLANE or len(block) != _PLANE:
        raise Inexpressible(rejection("image_shape", given=f"{axes} dimensions", allowed=_PLANE))
    pads = node.row("pads", 2 * axes, 0)
    if pads[:axes] != pads[axes:]:
        raise Inexpressible(rejection("pads", given=pads, allowed="equal ones on both sides"))
    call = FoldCall(
        out=node.output.shape,
        kernel=block,
        stride=node.row("strides", axes, 1),
        padding=pads[:axes],
        dilation=node.row("dilations", axes, 1),
        dtypes=(_DTYPES[_known(columns.dtype.name)], _DTYPES[_known(node.output.dtype.name)]),
    )
    case = _supported(call.case(_setting(node)))
    if case.tensors["grad_output"].shape != columns.shape:
        shape = case.tensors["grad_output"].shape
        raise Inexpressible(rejection("input", given=f"the shape {columns.shape}", allowed=shape))
    operands, outputs = {"grad_output": columns}, {"out": node.output}
    return (GivenCase(name=node.name, case=case, operands=operands, outputs=outputs),)


_CONVERTERS = {"Conv": _conv, "ConvTranspose": _conv_transpose, "Col2Im": _col2im}


def _convolution(node: Node, image: Row, weight: Row, result: Row) -> ConvolutionCall:
    """Returns the convolution from image to result whose gradient the node computes."""
    axes = len(image) - 2
    ranks = {len(image), len(weight), len(result)}
    if len(ranks) > 1 or not 1 <= axes <= _MOST_RANK - 2:
        raise Inexpressible(
            rejection("X", given=f"{len(image)} dimensions", allowed=f"3 to {_MOST_RANK}")
        )
    groups = node.attributes.get("group", 1)
    stride, dilation = node.row("strides", axes, 1), node.row("dilations", axes, 1)
    if not isinstance(groups, int) or min(*stride, *dilation, groups) < 1:
        raise Inexpressible("strides, dilations or group: must be at least 1")
    pads = _pads(node, image, weight, result)
    before, behind = (tuple(sides) for sides in zip(*pads, strict=True))
    for after in (before, tuple(max(0, side) for side in behind)):
        is_by_side = after != before
        if is_by_side and axes != _PLANE:
            continue
        padding = tuple(side for pair in zip(before, after, strict=True) for side in pair)
        call = ConvolutionCall(
            input=image,
            weight=weight,
            stride=stride,
            padding=padding if is_by_side else before,
            dilation=dilation,
            groups=groups,
        )
        if call.output == result and weight[1] * groups == image[1]:
            return call
    raise Inexpressible(f"pads: no supported padding leads from {image} to {result}")


def _pads(node: Node, image: Row, weight: Row, result: Row) -> list[tuple[int, int]]:
    """Returns the padding of both sides by axis; without `pads` it follows from the sizes."""
    axes = len(image) - 2
    said, given = node.attributes.get("auto_pad", "NOTSET"), node.row("pads", 2 * axes, 0)
    is_sized = node.operator == "ConvTranspose" and "output_shape" in node.attributes
    if said == "VALID" or (said == "NOTSET" and not is_sized):
        if min(given) < 0:
            raise Inexpressible(rejection("pads", given=given, allowed="numbers of at least 0"))
        return (
            [(0, 0)] * axes
            if said == "VALID"
            else list(zip(given[:axes], given[axes:], strict=True))
        )
    rows = (node.row("strides", axes, 1), node.row("dilations", axes, 1))
    extra = node.row("output_padding", axes, 0)
    pairs: list[tuple[int, int]] = []
    for axis, (step, apart) in enumerate(zip(*rows, strict=True)):
        reach = apart * (weight[2 + axis] - 1) + 1
        total = (result[2 + axis] - 1) * step + reach + extra[axis] - image[2 + axis]
        total = total if is_sized else max(0, total)
        first = total // 2 if said == "SAME_UPPER" else total - total // 2
        pairs.append((max(0, first), total - first))
    return pairs


def _in_dtype(call: ConvolutionCall, dtype: str, mask: Mask) -> ConvolutionCall:
    kinds = _DTYPES[_known(dtype)]
    return replace(call, mask=mask, dtypes=(kinds, kinds, kinds))


def _known(dtype: str) -> str:
    """Returns a dtype that operators support."""
    if dtype not in _DTYPES:
        raise Inexpressible(rejection("dtype", given=dtype, allowed=", ".join(_DTYPES)))
    return dtype


def _setting(node: Node) -> Setting:
    return Setting(profile=node.profile, tags=("onnx", node.operator), source=node.name)


def _supported(case: Case) -> Case:
    found = supported(case)
    if found is None:
        raise Inexpressible(f"{case.profile}: the profile does not support the call")
    return found


def _without_bias(node: Node) -> Array:
    """Returns the result minus the bias of each channel."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None  # noqa: PLR2004  # X, W, B
    if bias is None:
        return node.output
    shape = (1, -1, *(1,) * (node.output.ndim - 2))
    return node.output - bias.reshape(shape)


def _dot(left: Array, right: Array) -> float:
    return float(np.sum(left.astype(np.float64) * right.astype(np.float64)))
