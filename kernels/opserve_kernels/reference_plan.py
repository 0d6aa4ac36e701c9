"""Plans of a convolution's gradients in float64, for the profile `reference`.

Operands are loaded whole into the workspace, contiguous: images as (channel, batch, depth, height,
width), weights as (group, output channel, input channel, tap). A product is a list of rows, each
the sum of its steps. A work unit is some rows with all their steps, or some steps of one row.
"""

from collections.abc import Sequence
from typing import NamedTuple

from opserve_kernels.algorithms.names import Algorithm, named
from opserve_kernels.convolution import Convolution, Geometry
from opserve_kernels.copy_stages import FillStage, copy_stage
from opserve_kernels.gradients import ChannelSums, Diagonal, Gradients, Operand
from opserve_kernels.operator import Plan
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage, plan_of
from opserve_kernels.views import View
from opserve_kernels.workspace import Workspace

# Kinds of stages, none of which opserve_kernels.gradient_plan has.
(
    REFERENCE_FILL,
    REFERENCE_LOAD,
    REFERENCE_STORE,
    REFERENCE_SUM,
    REFERENCE_IMAGE,
    REFERENCE_OUTPUT,
    REFERENCE_WEIGHT,
    REFERENCE_DIAGONAL,
    REFERENCE_BIAS,
) = range(100, 109)

_DOUBLE_BYTES = 8
_COPY_ELEMENTS = 1 << 14  # elements that one unit copies or sums, below 1 ms
_PRODUCTS = 1 << 20  # products that one unit adds, 1 to 2 ms
_STEP_PRODUCTS = 32  # cost of finding the lines of a step, in products


class _Parts(NamedTuple):
    """Starts of the parts of the workspace, in float64 values."""

    image: int
    output: int
    weight: int
    bias: int
    total: int
    values: int


class ReferenceProduct(NamedTuple):
    """The record of a product.

    Attributes:
        total: Place of the sums.
        left: Place of one operand.
        right: Place of the other operand.
        rows: Rows of the result.
        unit_rows: Rows of a unit.
        steps: Steps in the sum of each row.
        unit_steps: Steps of a unit.
        chunks: Units that share the same rows.
        geometry: Geometry of the convolution.
    """

    total: int
    left: int
    right: int
    rows: int
    unit_rows: int
    steps: int
    unit_steps: int
    chunks: int
    geometry: Geometry


class ReferenceSums(NamedTuple):
    """The record of a stage of channel sums.

    Attributes:
        tensor: Place of the image's buffer among those of the call.
        total: Place of the sums.
        values: Place of the values that a unit loads.
        number_format: Format that they are rounded to.
        pixels: Pixels of a channel.
        chunks: Units of a channel.
        chunk: Pixels of a unit.
        layout: View of the image.
    """

    tensor: int
    total: int
    values: int
    number_format: int
    pixels: int
    chunks: int
    chunk: int
    layout: View


class ReferenceBias(NamedTuple):
    """The record of sums that begin with the bias of their channel.

    Attributes:
        values: Place of the bias.
        pixels: Pixels of a channel.
        filled: The sums, ordered by channel.
    """

    values: int
    pixels: int
    filled: FillStage


class ReferenceDiagonal(NamedTuple):
    """The record of a weight that keeps only its groups' entries.

    Attributes:
        start: Place of the weight.
        groups: Number of groups.
        extend: Groups of a superblock.
        group_outputs: Output channels of a group.
        group_inputs: Input channels of a group.
        geometry: Geometry of the convolution of superblocks.
    """

    start: int
    groups: int
    extend: int
    group_outputs: int
    group_inputs: int
    geometry: Geometry


def plan_reference(gradients: Gradients) -> Plan:
    """The plan of a call that sums something: channel sums first, then input, then weight."""
    workspace = Workspace(value_bytes=_DOUBLE_BYTES)
    # One share and no choice of algorithms: `reference` has the plainest plan, whatever the
    # options.
    parts = _reserve(gradients, workspace)
    stages = _load_stages(gradients, parts)
    if gradients.sums:
        stages += _sum_stages(gradients.sums, parts.total, parts.values)
    if gradients.grad_image:
        stages += _image_stages(gradients.grad_image, gradients, parts)
    if gradients.grad_output:
        stages += _output_stages(gradients.grad_output, gradients, parts)
    if gradients.grad_weight:
        stages += _weight_stages(gradients.grad_weight, gradients, parts)
    algorithms = (named(product, Algorithm.REFERENCE) for product in gradients.products)
    return plan_of([stages], workspace, algorithms)


def plan_reference_zeros(results: Sequence[Operand], sums: ChannelSums | None = None) -> Plan:
    """The plan of a call without products: zeros and channel sums."""
    wanted = [result for result in results if result.count > 0]
    workspace = Workspace(value_bytes=_DOUBLE_BYTES)
    zeros = workspace.reserve(max((result.count for result in wanted), default=0))
    stages: list[Stage] = []
    for result in wanted:
        stages += [_fill(zeros, result.count), _copy(REFERENCE_STORE, result, zeros)]
    if sums:
        total = workspace.reserve(sums.result.count)
        values = workspace.reserve(min(_COPY_ELEMENTS, _pixels(sums)))
        stages += _sum_stages(sums, total, values)
    return plan_of([stages], workspace)


def plan_reference_bias(bias: Operand, result: Operand) -> Plan:
    """The plan of a call without products: the bias of each channel."""
    workspace = Workspace(value_bytes=_DOUBLE_BYTES)
    values, total = workspace.reserve(bias.count), workspace.reserve(result.count)
    filled = _filled_with(bias, result.count, values, total)
    return plan_of([[*filled, _copy(REFERENCE_STORE, result, total)]], workspace)


def _reserve(gradients: Gradients, workspace: Workspace) -> _Parts:
    """Reserves the operands, and one total that the results use one after the other."""
    convolution, sums = gradients.convolution, gradients.sums
    total = max(
        convolution.image_elements if gradients.grad_image else 0,
        convolution.output_elements if gradients.grad_output else 0,
        convolution.weight_elements if gradients.grad_weight else 0,
        sums.result.count if sums else 0,
    )
    values = min(_COPY_ELEMENTS, _pixels(sums)) if sums else 0
    return _Parts(
        image=workspace.reserve(convolution.image_elements if gradients.image else 0),
        output=workspace.reserve(convolution.output_elements if gradients.output else 0),
        weight=workspace.reserve(convolution.weight_elements if gradients.weight else 0),
        bias=workspace.reserve(gradients.bias.count if gradients.bias else 0),
        total=workspace.reserve(total),
        values=workspace.reserve(values),
    )


def _load_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    """The stages that load operands; zeros first where an image has fewer channels."""
    convolution = gradients.convolution
    loads = (
        (gradients.image, parts.image, convolution.image_elements),
        (gradients.output, parts.output, convolution.output_elements),
        (gradients.weight, parts.weight, convolution.weight_elements),
    )
    stages: list[Stage] = []
    # Channels that a tensor lacks count as zeros; their products change no sum.
    for operand, start, elements in loads:
        if operand and operand.count < elements:
            stages.append(_fill(start, elements))
        if operand:
            stages.append(_copy(REFERENCE_LOAD, operand, start))
    return stages


def _sum_stages(sums: ChannelSums, total: int, values: int) -> list[Stage]:
    """The stages of channel sums; the image is read as it was given, not as products read it."""
    image, result = sums.image, sums.result
    chunks = -(-_pixels(sums) // _COPY_ELEMENTS)
    stage = ReferenceSums(
        tensor=image.place,
        total=total,
        values=values,
        number_format=image.number_format,
        pixels=_pixels(sums),
        chunks=chunks,
        chunk=_COPY_ELEMENTS,
        layout=image.view(),
    )
    return [
        _fill(total, result.count),
        Stage(kind=REFERENCE_SUM, units=result.count * chunks, parameters=encode(stage)),
        _copy(REFERENCE_STORE, result, total),
    ]


def _image_stages(result: Operand, gradients: Gradients, parts: _Parts) -> list[Stage]:
    """Rows are lines of the image; steps are an output channel and a line of taps."""
    convolution = gradients.convolution
    width = convolution.input_size[-1]
    product = _product(
        REFERENCE_IMAGE,
        convolution,
        places=(parts.total, parts.output, parts.weight),
        rows=convolution.image_elements // width,
        steps=convolution.output_channels * _tap_lines(convolution),
        products=convolution.kernel_size[-1] * convolution.output_size[-1],
    )
    begun = _begun(gradients.bias, convolution.image_elements, parts)
    return [*begun, product, _store(result, parts)]


def _output_stages(result: Operand, gradients: Gradients, parts: _Parts) -> list[Stage]:
    """Rows are lines of the output; steps are an input channel and a line of taps."""
    convolution = gradients.convolution
    width = convolution.output_size[-1]
    product = _product(
        REFERENCE_OUTPUT,
        convolution,
        places=(parts.total, parts.image, parts.weight),
        rows=convolution.output_elements // width,
        steps=convolution.input_channels * _tap_lines(convolution),
        products=convolution.kernel_size[-1] * width,
    )
    begun = _begun(gradients.bias, convolution.output_elements, parts)
    return [*begun, product, _store(result, parts)]


def _weight_stages(result: Operand, gradients: Gradients, parts: _Parts) -> list[Stage]:
    """Rows are values of the weight; steps are lines of the output."""
    convolution = gradients.convolution
    width = convolution.output_size[-1]
    product = _product(
        REFERENCE_WEIGHT,
        convolution,
        places=(parts.total, parts.image, parts.output),
        rows=convolution.weight_elements,
        steps=convolution.output_pixels // width,
        products=width,
    )
    stages = [_fill(parts.total, convolution.weight_elements), product]
    if gradients.diagonal:
        stages.append(_diagonal(gradients.diagonal, convolution, parts.total))
    return [*stages, _store(result, parts)]


def _product(
    kind: int,
    convolution: Convolution,
    *,
    places: tuple[int, int, int],
    rows: int,
    steps: int,
    products: int,
) -> Stage:
    """The stage of a product, in work units of about _PRODUCTS products.

    Args:
        kind: Kind of the stage.
        convolution: The geometry.
        places: Places of the sums and of the two operands in the workspace.
        rows: Rows of the result.
        steps: Steps in the sum of each row.
        products: Products in a step of a row, at most.
    """
    # Short lines cost more for being found than for being multiplied, so a step has a fixed cost.
    cost = products + _STEP_PRODUCTS
    unit_steps = max(1, min(steps, _PRODUCTS // cost))
    unit_rows = max(1, min(rows, _PRODUCTS // (steps * cost)))
    chunks = -(-steps // unit_steps)
    total, left, right = places
    stage = ReferenceProduct(
        total=total,
        left=left,
        right=right,
        rows=rows,
        unit_rows=unit_rows,
        steps=steps,
        unit_steps=unit_steps,
        chunks=chunks,
        geometry=convolution.geometry,
    )
    return Stage(kind=kind, units=-(-rows // unit_rows) * chunks, parameters=encode(stage))


def _diagonal(diagonal: Diagonal, convolution: Convolution, start: int) -> Stage:
    """The stage of a diagonal; a work unit is an output channel of a superblock."""
    stage = ReferenceDiagonal(
        start=start,
        groups=diagonal.groups,
        extend=diagonal.extend,
        group_outputs=diagonal.output_channels,
        group_inputs=diagonal.input_channels,
        geometry=convolution.geometry,
    )
    units = convolution.groups * convolution.output_channels
    return Stage(kind=REFERENCE_DIAGONAL, units=units, parameters=encode(stage))


def _begun(bias: Operand | None, count: int, parts: _Parts) -> list[Stage]:
    """The stages of the values that sums begin with: zeros, or the bias of each channel."""
    if bias is None:
        return [_fill(parts.total, count)]
    return _filled_with(bias, count, parts.bias, parts.total)


def _filled_with(bias: Operand, count: int, values: int, total: int) -> list[Stage]:
    filled = _filled(total, count)
    stage = ReferenceBias(values=values, pixels=count // bias.count, filled=filled)
    units = -(-count // _COPY_ELEMENTS)
    return [
        _copy(REFERENCE_LOAD, bias, values),
        Stage(kind=REFERENCE_BIAS, units=units, parameters=encode(stage)),
    ]


def _fill(start: int, count: int) -> Stage:
    units = -(-count // _COPY_ELEMENTS)
    stage = _filled(start, count)
    return Stage(kind=REFERENCE_FILL, units=units, parameters=encode(stage))


def _filled(start: int, count: int) -> FillStage:
    return FillStage(start=start, length=count, chunk=_COPY_ELEMENTS)


def _store(result: Operand, parts: _Parts) -> Stage:
    return _copy(REFERENCE_STORE, result, parts.total)


def _copy(kind: int, operand: Operand, start: int) -> Stage:
    return copy_stage(kind, operand, start, operand.view(), _COPY_ELEMENTS)


def _tap_lines(convolution: Convolution) -> int:
    return convolution.kernel_size[0] * convolution.kernel_size[1]


def _pixels(sums: ChannelSums) -> int:
    return sums.image.count // sums.result.count
