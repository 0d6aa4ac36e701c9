"""Phase one of aclnnIm2colBackward: the rules in order, then the sums of the work units.

A work unit is some rows of some planes of the image; in float64, on `reference`, it is some of the
image's pixels.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from opserve_kernels.algorithms.fold.layout import FoldShape
from opserve_kernels.algorithms.fold.plan import Fold, fold_algorithms, plan_fold
from opserve_kernels.algorithms.names import Algorithm, named, requested_algorithms
from opserve_kernels.convolution import check_positions, output_size
from opserve_kernels.errors import check_elements, invalid_argument
from opserve_kernels.gradients import Product
from opserve_kernels.number_formats import result_format
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.im2col_backward.contract import (
    DOCUMENTED_RULES,
    LEAST,
    PAGE_DTYPES,
    RULES,
    SUPPORT,
)
from opserve_kernels.operators.im2col_backward.schema import PAIR, RANKS, Im2colBackward
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.records import encode
from opserve_kernels.rules import (
    check_dtype,
    check_length,
    check_page_dtype,
    check_range,
    required,
)
from opserve_kernels.shares import even
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.tensor import Format, Tensor, check_tensor, sliced
from opserve_kernels.views import View, view_of
from opserve_kernels.workspace import Workspace

GRAD_OUTPUT, OUT = 0, 1  # places of the tensors in the schema
FOLD, REFERENCE_FOLD = range(2)  # kinds of stages
_DOUBLE_BYTES = 8
_LEAST_VALUES = 1 << 20  # values of columns in a call that is cut into shares, about 0.2 ms
_REFERENCE_TAPS = 1 << 14  # taps that a unit in float64 examines, about 1 ms


class ReferenceFold(NamedTuple):
    """The record of a stage in float64.

    Attributes:
        chunk: Pixels that a work unit sums.
        pixels: Pixels of all planes of the image.
        number_format: Format that sums are rounded to.
        shape: Geometry of the image and the taps.
        source_layout: View of the columns.
        result_layout: View of the image.
    """

    chunk: int
    pixels: int
    number_format: int
    shape: FoldShape
    source_layout: View
    result_layout: View


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The complete arguments of a call."""

    grad_output: Tensor
    input_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    out: Tensor


def plan(arguments: Im2colBackward, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call; an empty grad_output needs no workspace and no work, and out is unchanged.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name, tensor in (("grad_output", arguments.grad_output), ("out", arguments.out)):
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = _check(arguments, profile.name, page)
    return page.with_warnings(_planned(call, profile, options))


def _planned(call: _Call, profile: Profile, options: PlanOptions) -> Plan:
    # The vendor's source returns before it writes: out is unchanged.
    if 0 in {call.grad_output.element_count, call.out.element_count}:
        return Plan(workspace_size=0, shares=(), parameters=())
    _check_positions(call)
    check_elements(call.grad_output.element_count, call.out.element_count)
    return (
        _plan_reference(call, options)
        if profile.is_reference
        else _plan_rows(call, profile, options)
    )


def _check_positions(call: _Call) -> None:
    for axis, places in enumerate(_columns(call)):
        check_positions(
            size=call.input_size[axis],
            places=places,
            kernel=call.kernel_size[axis],
            stride=call.stride[axis],
            padding=call.padding[axis],
            dilation=call.dilation[axis],
        )


def _plan_rows(call: _Call, profile: Profile, options: PlanOptions) -> Plan:
    """The plan in float32; shares are channels or entries, whichever parts are more even."""
    workspace = Workspace()
    algorithm = _algorithm(fold_algorithms(_fold(call, profile)), options)
    # A small call is one share: starting a thread would cost more than it saves. Of entries and
    # channels, the axis with the smaller largest part wins.
    few = 1 if call.grad_output.element_count < _LEAST_VALUES else options.threads
    axes = range(call.out.rank - PAIR)
    ways = [
        [_part(call, axis, *bound) for bound in even(call.out.shape[axis], few)] for axis in axes
    ]
    parts = min(ways, key=lambda parts: max(part.out.element_count for part in parts))
    # Shares run at the same time, so each fold reserves parts of its own.
    folds = [plan_fold(_fold(part, profile), algorithm, workspace) for part in parts]
    shares = [[Stage(kind=FOLD, units=units, parameters=parameters)] for units, parameters in folds]
    return plan_of(shares, workspace, [named(Product.IMAGE, algorithm)])


def _algorithm(possible: list[Algorithm], options: PlanOptions) -> Algorithm:
    """The requested algorithm, else the first."""
    requested = requested_algorithms(options.algorithms, {Product.IMAGE: possible})
    return requested.get(Product.IMAGE, possible[0])


def _part(call: _Call, axis: int, first: int, last: int) -> _Call:
    """Some of the entries or channels; a channel of grad_output includes all its taps."""
    # A channel of grad_output is a run of rows, one for each tap: its bounds scale with them.
    channels = call.out.shape[axis]
    grad_output, out = (
        sliced(tensor, axis, *(bound * tensor.shape[axis] // channels for bound in (first, last)))
        for tensor in (call.grad_output, call.out)
    )
    return replace(call, grad_output=grad_output, out=out)


def _fold(call: _Call, profile: Profile) -> Fold:
    """Sums are rounded to grad_output's dtype, then cast to out's."""
    # The vendor's source sums into a tensor of grad_output's dtype and casts that.
    computed = call.grad_output.dtype.acl_number
    return Fold(
        planes=prod(call.out.shape[:-PAIR]),
        shape=_shape(call),
        number_format=result_format(computed, call.out.dtype, saturates=profile.saturates),
        source=view_of(call.grad_output),
        result=view_of(call.out),
    )


def _shape(call: _Call) -> FoldShape:
    return FoldShape(
        size=_pair(call.input_size),
        positions=_columns(call),
        kernel=_pair(call.kernel_size),
        dilation=_pair(call.dilation),
        padding=_pair(call.padding),
        stride=_pair(call.stride),
    )


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    down, across = values
    return down, across


def _plan_reference(call: _Call, options: PlanOptions) -> Plan:
    """The plan in float64: sums are rounded once, to out's dtype."""
    # `reference` sums pixel by pixel. A unit is bounded by the taps that it examines, since most of
    # its time goes into finding their columns.
    algorithm = _algorithm([Algorithm.REFERENCE], options)
    pixels, taps = call.out.element_count, prod(call.kernel_size)
    chunk = max(1, min(pixels, _REFERENCE_TAPS // taps))
    workspace = Workspace(value_bytes=_DOUBLE_BYTES)
    workspace.reserve(chunk)
    sums = ReferenceFold(
        chunk=chunk,
        pixels=pixels,
        number_format=call.out.dtype.acl_number,
        shape=_shape(call),
        source_layout=view_of(call.grad_output),
        result_layout=view_of(call.out),
    )
    stage = Stage(kind=REFERENCE_FOLD, units=-(-pixels // chunk), parameters=encode(sums))
    return plan_of([[stage]], workspace, [named(Product.IMAGE, algorithm)])


def _check(arguments: Im2colBackward, profile: str, page: PageRules) -> _Call:
    """Checks the rules in the order of the vendor's source; those of the page alone come last."""
    call = _check_nulls(arguments)
    check_dtype("grad_output", call.grad_output, support=SUPPORT, profile=profile)
    check_dtype("out", call.out, support=SUPPORT, profile=profile)
    _check_ranks(call)
    check_length("input_size", call.input_size, allowed=PAIR)
    check_length("kernel_size", call.kernel_size, allowed=PAIR)
    check_length("dilation", call.dilation, allowed=PAIR)
    check_length("padding", call.padding, allowed=PAIR)
    check_length("stride", call.stride, allowed=PAIR)
    check_range("kernel_size", call.kernel_size, least=LEAST["kernel_size"])
    check_range("stride", call.stride, least=LEAST["stride"])
    check_range("dilation", call.dilation, least=LEAST["dilation"])
    check_range("padding", call.padding, least=LEAST["padding"])
    _check_shapes(call)
    with page.rule("a value below 1"):
        check_range("input_size", call.input_size, least=LEAST["input_size"])
    for name, tensor in (("grad_output", call.grad_output), ("out", call.out)):
        with page.rule("format is not ND"):
            _check_format(name, tensor)
        with page.rule("dtype is BF16"):
            check_page_dtype(name, tensor, PAGE_DTYPES)
    return call


def _check_format(name: str, tensor: Tensor) -> None:
    if tensor.format != Format.ND:
        raise invalid_argument(name, given=f"format {tensor.format}", allowed="format ND")


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
    if call.grad_output.rank not in RANKS:
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
    # The vendor's order: rows, then the kernel's fit, then columns, then the image's shape.
    taps = prod(call.kernel_size)
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
        for axis in range(PAIR)
    )
    return high, wide
