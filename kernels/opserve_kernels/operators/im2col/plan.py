"""Phase one of aclnnIm2col: the rules in the vendor's order, then the ranges of elements to copy.

A work unit is a range of the elements of out, in row-major order.
"""

from dataclasses import dataclass
from math import prod
from typing import Annotated, NamedTuple

from opserve_kernels.algorithms.fold.layout import FoldShape
from opserve_kernels.algorithms.names import requested_algorithms
from opserve_kernels.convolution import check_positions, output_size
from opserve_kernels.errors import check_elements, invalid_argument
from opserve_kernels.number_formats import result_format
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.im2col.contract import (
    DOCUMENTED_RULES,
    LEAST,
    RULES,
    SOURCE_ONLY_PROFILE,
    SUPPORT,
)
from opserve_kernels.operators.im2col.schema import PAIR, RANKS, Im2col
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.records import encode
from opserve_kernels.rules import (
    check_dtype,
    check_length,
    check_page_profile,
    check_range,
    required,
)
from opserve_kernels.shares import even
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.tensor import DataType, Format, Tensor, check_tensor
from opserve_kernels.views import View, view_of
from opserve_kernels.workspace import Workspace

SELF, OUT = 0, 1  # places of the tensors in the schema
GATHER = 0  # kind of every stage
CHUNK = 1 << 16  # elements of a unit, about 0.05 ms
_LEAST_ELEMENTS = 1 << 20  # of out in a call that is cut into shares, about 0.5 ms
_REFERENCE_CHUNK = 1 << 14  # the same on `reference`, which finds the place of each element anew
_DOUBLE_BYTES = 8
_HALVES = 2  # 16-bit elements in a value of the workspace


class GatherStage(NamedTuple):
    """The record of a stage: elements of the image copied to a range of out.

    Attributes:
        first: Element of out at which the range begins, in row-major order.
        last: One past its last element.
        chunk: Elements of a unit.
        copies: Whether out has self's dtype, so that elements are copied bit by bit.
        element_type: Number of self's dtype.
        number_format: Format that elements of another dtype are rounded to.
        patterns: Place in the workspace of a unit's elements before their conversion.
        values: Place in the workspace of the same as float32.
        channels: Channels of the image.
        shape: The image and the positions of a block.
        source_offset: Place of the image's first element.
        source_steps: Distances of entries, channels, rows and pixels of the image.
        result_offset: Place of out's first element.
        result_steps: Distances of entries, rows and columns of out.
        source_layout: View of the image.
        result_layout: View of out.
    """

    first: int
    last: int
    chunk: int
    copies: int
    element_type: int
    number_format: int
    patterns: int
    values: int
    channels: int
    shape: FoldShape
    source_offset: int
    source_steps: Annotated[tuple[int, ...], 4]
    result_offset: int
    result_steps: Annotated[tuple[int, ...], 3]
    source_layout: View
    result_layout: View


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The complete arguments of a call."""

    image: Tensor
    kernel_size: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    out: Tensor


def plan(arguments: Im2col, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call; an image without entries needs no workspace and no work.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) before any rule of the vendor: rules rely on their
    # shapes.
    for name, tensor in (("self", arguments.self), ("out", arguments.out)):
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = _check(arguments, profile.name, page)
    return page.with_warnings(_planned(call, profile, options))


def _planned(call: _Call, profile: Profile, options: PlanOptions) -> Plan:
    requested_algorithms(options.algorithms, {})
    # The vendor's source returns before it writes.
    if call.image.element_count == 0:
        return Plan(workspace_size=0, shares=(), parameters=())
    for axis, places in enumerate(_positions(call)):
        check_positions(
            size=call.image.shape[axis - PAIR],
            places=places,
            kernel=call.kernel_size[axis],
            stride=call.stride[axis],
            padding=call.padding[axis],
            dilation=call.dilation[axis],
        )
    check_elements(call.image.element_count, call.out.element_count)
    # Starting a thread for less would cost more than it saves.
    threads = options.threads if call.out.element_count >= _LEAST_ELEMENTS else 1
    workspace = Workspace(value_bytes=_DOUBLE_BYTES) if profile.is_reference else Workspace()
    shares = [
        [_stage(call, profile, bound, workspace)] for bound in even(call.out.element_count, threads)
    ]
    return plan_of(shares, workspace)


def _stage(call: _Call, profile: Profile, bound: tuple[int, int], workspace: Workspace) -> Stage:
    """The stage of a range of out; ranges run at the same time, so each reserves its own parts."""
    first, last = bound
    chunk = min(last - first, _REFERENCE_CHUNK if profile.is_reference else CHUNK)
    copies = call.image.dtype == call.out.dtype
    # Elements to convert pass through the workspace, FLOAT in the place of its float32 values.
    values = 0 if copies else workspace.reserve(chunk)
    patterns = values
    if not copies and not profile.is_reference and call.image.dtype != DataType.FLOAT:
        patterns = workspace.reserve(-(-chunk // _HALVES))
    # Without a batch, the entries' step multiplies 0.
    *entries, channels, down, across = call.image.element_strides
    *batch, row, column = call.out.element_strides
    stage = GatherStage(
        first=first,
        last=last,
        chunk=chunk,
        copies=copies,
        element_type=call.image.dtype.acl_number,
        number_format=_number_format(call, profile),
        patterns=patterns,
        values=values,
        channels=call.image.shape[-PAIR - 1],
        shape=_shape(call),
        source_offset=call.image.offset,
        source_steps=(sum(entries), channels, down, across),
        result_offset=call.out.offset,
        result_steps=(sum(batch), row, column),
        source_layout=view_of(call.image),
        result_layout=view_of(call.out),
    )
    return Stage(kind=GATHER, units=-(-(last - first) // chunk), parameters=encode(stage))


def _number_format(call: _Call, profile: Profile) -> int:
    """Elements of another dtype are cast, which keeps them in FLOAT16's range on some devices."""
    written = call.out.dtype
    return result_format(written.acl_number, written, saturates=profile.saturates)


def _shape(call: _Call) -> FoldShape:
    return FoldShape(
        size=_pair(call.image.shape[-PAIR:]),
        positions=_positions(call),
        kernel=_pair(call.kernel_size),
        dilation=_pair(call.dilation),
        padding=_pair(call.padding),
        stride=_pair(call.stride),
    )


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    down, across = values
    return down, across


def _check(arguments: Im2col, profile: str, page: PageRules) -> _Call:
    """Checks the rules in the order of the vendor's source; those of the page alone come last."""
    call = _Call(
        image=required("self", arguments.self),
        kernel_size=required("kernel_size", arguments.kernel_size),
        dilation=required("dilation", arguments.dilation),
        padding=required("padding", arguments.padding),
        stride=required("stride", arguments.stride),
        out=required("out", arguments.out),
    )
    check_dtype("self", call.image, support=SUPPORT, profile=profile)
    _check_image(call)
    check_length("kernel_size", call.kernel_size, allowed=PAIR)
    check_length("dilation", call.dilation, allowed=PAIR)
    check_length("padding", call.padding, allowed=PAIR)
    check_length("stride", call.stride, allowed=PAIR)
    check_range("kernel_size", call.kernel_size, least=LEAST["kernel_size"])
    check_range("stride", call.stride, least=LEAST["stride"])
    check_range("dilation", call.dilation, least=LEAST["dilation"])
    check_range("padding", call.padding, least=LEAST["padding"])
    _check_columns(call)
    # The source casts to whatever dtype out has; opserve writes the dtypes of self.
    check_dtype("out", call.out, support=SUPPORT, profile=profile)
    with page.rule("ascend910, a product that the page does not list"):
        check_page_profile(profile, SOURCE_ONLY_PROFILE, SUPPORT)
    for name, tensor in (("self", call.image), ("out", call.out)):
        with page.rule("format is not ND"):
            _check_format(name, tensor)
    return call


def _check_image(call: _Call) -> None:
    if call.image.rank not in RANKS:
        raise invalid_argument(
            "self", given=f"shape {list(call.image.shape)}", allowed="3 or 4 dimensions"
        )
    if 0 in call.image.shape[-PAIR - 1 :]:
        raise invalid_argument(
            "self",
            given=f"shape {list(call.image.shape)}",
            allowed="at least one channel, row and column",
        )


def _check_columns(call: _Call) -> None:
    high, wide = _positions(call)
    if high < 1 or wide < 1:
        raise invalid_argument(
            "kernel_size",
            given=list(call.kernel_size),
            allowed=f"blocks that fit on the padded image of {list(call.image.shape[-PAIR:])}",
        )
    *batch, channels, _, _ = call.image.shape
    shape = (*batch, channels * prod(call.kernel_size), high * wide)
    if call.out.shape != shape:
        raise invalid_argument(
            "out", given=f"shape {list(call.out.shape)}", allowed=f"shape {list(shape)}"
        )


def _check_format(name: str, tensor: Tensor) -> None:
    if tensor.format != Format.ND:
        raise invalid_argument(name, given=f"format {tensor.format}", allowed="format ND")


def _positions(call: _Call) -> tuple[int, int]:
    """Positions of a block, down and across."""
    high, wide = (
        output_size(
            call.image.shape[axis - PAIR],
            kernel=call.kernel_size[axis],
            stride=call.stride[axis],
            padding=2 * call.padding[axis],
            dilation=call.dilation[axis],
        )
        for axis in range(PAIR)
    )
    return high, wide
