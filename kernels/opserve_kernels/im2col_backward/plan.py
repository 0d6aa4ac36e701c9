"""Phase one of aclnnIm2colBackward: the rules in order, and a work unit for each image row."""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.convolution import output_size
from opserve_kernels.errors import invalid_argument
from opserve_kernels.im2col_backward.schema import Im2colBackward
from opserve_kernels.operator import Plan
from opserve_kernels.profiles import Profile
from opserve_kernels.rules import check_dtype, check_length, check_range, required
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_kernels.views import encode_view
from opserve_kernels.workspace import Workspace

GRAD_OUTPUT, OUT = 0, 1  # places of the tensors in the schema
_RANKS = (2, 3)
_PAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The arguments of a call, none of them missing."""

    grad_output: Tensor
    input_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    out: Tensor


def infer_outputs(arguments: Im2colBackward) -> Mapping[str, Tensor]:
    """The image that a caller who gave none would make: contiguous, without a buffer."""
    grad_output, kernel_size = arguments.grad_output, arguments.kernel_size
    if arguments.out is not None or grad_output is None or arguments.input_size is None:
        return {}
    if kernel_size is None or len(kernel_size) != _PAIR or min(kernel_size) < 1:
        return {}
    if grad_output.rank not in _RANKS or len(arguments.input_size) != _PAIR:
        return {}
    channels = grad_output.shape[-2] // (kernel_size[0] * kernel_size[1])
    shape = (*grad_output.shape[:-2], channels, *arguments.input_size)
    return {"out": Tensor(shape=shape, dtype=grad_output.dtype)}


def plan(arguments: Im2colBackward, profile: Profile) -> Plan:  # noqa: ARG001  # only one
    """Checks a call; an empty grad_output needs no workspace and no work, and out stays as it is.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    for name, tensor in (("grad_output", arguments.grad_output), ("out", arguments.out)):
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    call = _check(arguments)
    if call.grad_output.element_count == 0:
        return Plan(workspace_size=0, units=0, parameters=())
    height, width = call.input_size
    columns = _columns(call)
    workspace = Workspace()
    image_row, column_row = workspace.reserve(width), workspace.reserve(columns[1])
    numbers = (image_row, column_row, *call.input_size, *columns, *call.kernel_size)
    steps = (*call.dilation, *call.padding, *call.stride)
    return Plan(
        workspace_size=workspace.size_bytes,
        units=call.out.element_count // (height * width) * height,
        parameters=(*numbers, *steps, *_view(call.grad_output), *_view(call.out)),
    )


def _check(arguments: Im2colBackward) -> _Call:
    """The rules, in the order of the vendor's source; those that only the page states come last."""
    call = _check_nulls(arguments)
    check_dtype("grad_output", call.grad_output)
    check_dtype("out", call.out)
    _check_ranks(call)
    check_length("input_size", call.input_size, allowed=_PAIR)
    check_length("kernel_size", call.kernel_size, allowed=_PAIR)
    check_length("dilation", call.dilation, allowed=_PAIR)
    check_length("padding", call.padding, allowed=_PAIR)
    check_length("stride", call.stride, allowed=_PAIR)
    check_range("kernel_size", call.kernel_size, least=1)
    check_range("stride", call.stride, least=1)
    check_range("dilation", call.dilation, least=1)
    check_range("padding", call.padding, least=0)
    _check_shapes(call)
    check_range("input_size", call.input_size, least=1)
    return call


def _check_nulls(arguments: Im2colBackward) -> _Call:
    return _Call(
        grad_output=required("grad_output", arguments.grad_output),
        input_size=required("input_size", arguments.input_size),
        kernel_size=required("kernel_size", arguments.kernel_size),
        dilation=required("dilation", arguments.dilation),
        padding=required("padding", arguments.padding),
        stride=required("stride", arguments.stride),
        out=required("out", arguments.out),
    )


def _check_ranks(call: _Call) -> None:
    if call.grad_output.rank not in _RANKS:
        raise invalid_argument(
            "grad_output",
            given=f"shape {list(call.grad_output.shape)}",
            allowed="2 or 3 dimensions",
        )
    if call.out.rank != call.grad_output.rank + 1:
        raise invalid_argument(
            "out",
            given=f"shape {list(call.out.shape)}",
            allowed=f"{call.grad_output.rank + 1} dimensions, one more than grad_output",
        )


def _check_shapes(call: _Call) -> None:
    taps = call.kernel_size[0] * call.kernel_size[1]
    *batch, rows, length = call.grad_output.shape
    if rows % taps != 0:
        raise invalid_argument(
            "grad_output",
            given=f"{rows} rows in shape {list(call.grad_output.shape)}",
            allowed=f"multiples of the {taps} elements of a block",
        )
    high, wide = _columns(call)
    if high < 1 or wide < 1:
        raise invalid_argument(
            "kernel_size",
            given=list(call.kernel_size),
            allowed=f"blocks that fit on the padded image of input_size {list(call.input_size)}",
        )
    if length != high * wide:
        raise invalid_argument(
            "grad_output",
            given=f"{length} columns in shape {list(call.grad_output.shape)}",
            allowed=f"{high * wide}: blocks at {high} x {wide} positions",
        )
    shape = (*batch, rows // taps, *call.input_size)
    if call.out.shape != shape:
        raise invalid_argument(
            "out", given=f"shape {list(call.out.shape)}", allowed=f"shape {list(shape)}"
        )


def _columns(call: _Call) -> tuple[int, int]:
    """Positions of a block, down and across."""
    high, wide = (
        output_size(
            call.input_size[axis],
            kernel=call.kernel_size[axis],
            stride=call.stride[axis],
            padding=2 * call.padding[axis],
            dilation=call.dilation[axis],
        )
        for axis in range(_PAIR)
    )
    return high, wide


def _view(tensor: Tensor) -> tuple[int, ...]:
    return encode_view(tensor, shape=tensor.shape, strides=tensor.element_strides)
