"""Plans of the depthwise algorithm: calls that fit, blocks and workspace."""

from dataclasses import dataclass, replace
from math import prod

from opserve_kernels.algorithms.correlation.layout import NO_BIAS
from opserve_kernels.algorithms.depthwise.layout import (
    COMPARE,
    WEIGH_IMAGE,
    WEIGH_OUTPUT,
    DepthwiseBlocks,
    DepthwiseStage,
    DepthwiseTensor,
    PlainImage,
)
from opserve_kernels.algorithms.host import SUM_LANES, VARIANT
from opserve_kernels.convolution import SPATIAL_RANK, Convolution, Triple
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.tensor import DataType
from opserve_kernels.workspace import Workspace

_MOST_CHANNELS = 4  # output channels of a group: with more, panels use each value more often
_COPY_ELEMENTS = 1 << 14  # of a block, 64 KiB: it and its sums stay in the second-level cache
_HAS_MASKS = VARIANT.lanes > 4 and not VARIANT.plain  # noqa: PLR2004  # needs masked loads at row ends
_IN_PLACE_KERNELS = ((1, 3, 3), (1, 5, 5)) if _HAS_MASKS else ()
_IN_PLACE_STRIDES = ((1, 1, 1), (1, 2, 2))
_MOST_IN_PLACE = 1 << 18  # positions of a plane: larger ones are cut, which takes less workspace
_UNIT_PRODUCTS = 1 << 20  # multiply-adds of a unit, about 0.1 ms
_BLOCK_PRODUCTS = 1 << 25  # multiply-adds of a block, a few ms, unless a row has more
_NOT_PLAIN, _NO_IMAGE = PlainImage(0, 0, 0, 0), PlainImage(0, -1, 0, 0)
_SLACK = 128  # values read or written behind a run at most: more than one kernel call takes


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseProduct:
    """A product of the depthwise algorithm.

    Attributes:
        kind: WEIGH_OUTPUT, WEIGH_IMAGE or COMPARE.
        convolution: The geometry.
        source: The operand that is shifted: Y for WEIGH_OUTPUT, else X.
        other: W, or Y for COMPARE.
        result: The third of X, Y and W.
        bias: Place in the workspace of a value for each channel of the result; or NO_BIAS.
    """

    kind: int
    convolution: Convolution
    source: Operand
    other: Operand
    result: Operand
    bias: int = NO_BIAS


def fits(gradients: Gradients) -> bool:
    """Whether every product of a call can be planned here."""
    convolution = gradients.convolution
    images = (
        (gradients.image, convolution.image_elements),
        (gradients.grad_image, convolution.image_elements),
        (gradients.output, convolution.output_elements),
        (gradients.grad_output, convolution.output_elements),
    )
    return (
        convolution.input_channels == 1
        and convolution.output_channels <= _MOST_CHANNELS
        and gradients.diagonal is None
        and all(image is None or image.count == elements for image, elements in images)
    )


def depthwise_stages(
    kind: int, gradients: Gradients, workspace: Workspace, *, bias: int = NO_BIAS
) -> list[Stage]:
    """The stages of a call's products, in any order, each with its own part of the workspace.

    Args:
        kind: Number of the stages; their loop is opserve_kernels.algorithms.depthwise.loops.
        gradients: A call that fits.
        workspace: Provides the parts that the stages need.
        bias: Place in the workspace of a value for each channel of the result; or NO_BIAS.
    """
    products = depthwise_products(gradients)
    return [plan_depthwise(kind, replace(one, bias=bias), workspace) for one in products]


def depthwise_products(gradients: Gradients) -> list[DepthwiseProduct]:
    """The products of a call: the image's gradient, the output's, the weight's."""
    sources = (gradients.output, gradients.image, gradients.image)
    others = (gradients.weight, gradients.weight, gradients.output)
    results = (gradients.grad_image, gradients.grad_output, gradients.grad_weight)
    products: list[DepthwiseProduct] = []
    for kind, source, other, result in zip(
        (WEIGH_OUTPUT, WEIGH_IMAGE, COMPARE), sources, others, results, strict=True
    ):
        if result is not None:
            assert source is not None
            assert other is not None
            product = DepthwiseProduct(
                kind=kind,
                convolution=gradients.convolution,
                source=source,
                other=other,
                result=result,
            )
            products.append(product)
    return products


def plan_depthwise(kind: int, product: DepthwiseProduct, workspace: Workspace) -> Stage:
    """The stage of a product; kind is its number among stages.

    The stage's parameters are the places of source, other and result among the call's tensors,
    then a DepthwiseStage.
    """
    stage = _describe(product, workspace)
    places = (product.source.place, product.other.place, product.result.place)
    return Stage(
        kind=kind,
        units=1 + -(-stage.groups * stage.blocks.per_group // stage.blocks.per_unit),
        parameters=(*places, *encode(stage)),
    )


def _describe(product: DepthwiseProduct, workspace: Workspace) -> DepthwiseStage:
    # The order of the places matters: the first unit fills everything from `line` to `end` with
    # padding.
    convolution, blocks = product.convolution, _GroupBlocks.of(product)
    source_phases, result_phases = _phases(product)
    taps, channels = convolution.taps, convolution.output_channels
    scatters, compares = product.kind == WEIGH_OUTPUT, product.kind == COMPARE
    channel_pitch = source_phases * blocks.elements
    # WEIGH_OUTPUT reads all output channels of a group for its one image channel.
    copies = channels if scatters else 1
    # COMPARE keeps lanes for one careful sum and a flag behind its totals. The others compute whole
    # vectors of sums, which may end behind the block.
    total_pitch = taps + SUM_LANES + 1 if compares else blocks.elements + _SLACK
    totals = convolution.stride[-1] if scatters else 1
    source, other, result = _plain_images(product)
    copy = blocks.front + copies * channel_pitch + _SLACK
    return DepthwiseStage(
        geometry=convolution.geometry,
        groups=convolution.groups,
        kind=product.kind,
        source_tensor=_tensor(product.source, source),
        other_tensor=_tensor(product.other, other),
        result_tensor=_tensor(product.result, result),
        blocks=_cut(product, blocks),
        in_place=_is_in_place(product),
        result_phases=result_phases,
        phase_pitch=blocks.elements,
        channel_pitch=channel_pitch,
        total_pitch=total_pitch,
        table=workspace.reserve(result_phases + 1 + taps + taps * copies),
        weights=workspace.reserve(_kept_weights(product, blocks)),
        line=workspace.reserve(_line(product, blocks)),
        # Without a bias, PADDING is added, which changes no sum.
        bias=workspace.reserve(1) if product.bias == NO_BIAS else product.bias,
        bias_step=int(product.bias != NO_BIAS),
        source=workspace.reserve(copy) + blocks.front,
        other=workspace.reserve(blocks.elements + _SLACK if compares else 0),
        total=workspace.reserve(totals * total_pitch),
        end=workspace.reserve(0),
    )


def _kept_weights(product: DepthwiseProduct, blocks: "_GroupBlocks") -> int:
    """Values of the weights, or of their gradient, that are in the workspace at a time."""
    # Groups of one block each run together, so the weights of all groups of a unit are kept.
    together = _is_in_place(product) and blocks.count == 1
    at_once = _unit_blocks(product, blocks) if together else 0
    copies = 1 if product.kind == COMPARE else 2
    return max(copies, at_once) * product.convolution.output_channels * product.convolution.taps


def _tensor(operand: Operand, plain: PlainImage) -> DepthwiseTensor:
    return DepthwiseTensor(number_format=operand.number_format, plain=plain, layout=operand.view())


def _cut(product: DepthwiseProduct, blocks: "_GroupBlocks") -> DepthwiseBlocks:
    d, h, w = (
        _Axis.of(product, axis).lowest if axis == blocks.axis else 0 for axis in range(SPATIAL_RANK)
    )
    return DepthwiseBlocks(
        entries=blocks.entries,
        axis=blocks.axis,
        rows=blocks.rows,
        row_blocks=blocks.row_blocks,
        per_group=blocks.count,
        per_unit=_unit_blocks(product, blocks),
        extent=blocks.extent,
        base=(d, h, w),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A dimension, within phases.

    Attributes:
        source: Positions of the source's first phase.
        result: Positions of the sums: of the result's first phase, or of Y.
        lowest: The lowest shift of a tap.
        highest: The highest.
    """

    source: int
    result: int
    lowest: int
    highest: int

    @staticmethod
    def of(product: DepthwiseProduct, axis: int) -> "_Axis":
        """The bounds of one dimension."""
        convolution = product.convolution
        # Shifts within phases: a tap at distance x is x // stride positions away.
        image, output = convolution.input_size[axis], convolution.output_size[axis]
        stride, padding = convolution.stride[axis], convolution.padding[axis]
        span = (convolution.kernel_size[axis] - 1) * convolution.dilation[axis]
        image_phase = -(-image // stride)
        if product.kind == WEIGH_OUTPUT:
            lowest, highest = -((span - padding) // stride), (stride - 1 + padding) // stride
            return _Axis(source=output, result=image_phase, lowest=lowest, highest=highest)
        lowest, highest = -padding // stride, (span - padding) // stride
        return _Axis(source=image_phase, result=output, lowest=lowest, highest=highest)

    @property
    def before(self) -> int:
        """Positions before the source that some shift reads."""
        return max(0, -self.lowest)

    @property
    def extent(self) -> int:
        """Positions of a row of the copy, enough that everything beyond the row is padding."""
        after = self.result - 1 + self.highest - (self.source - 1)
        return max(self.source + max(self.before, after, 0), self.result)

    @property
    def span(self) -> int:
        """Positions that all shifts of one position span, less one."""
        return self.highest - self.lowest


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupBlocks:
    """The cut of a group: entries of the batch, or rows of one entry if it is too long.

    Attributes:
        entries: Entries of a block.
        axis: Axis along which entries are cut, or -1.
        rows: Rows of sums in a block along that axis; the last block may have fewer.
        row_blocks: Blocks of an entry.
        count: Blocks of a group.
        extent: Sizes of a plane of the copy.
        front: Values before the first plane that some shift reads.
    """

    entries: int
    axis: int
    rows: int
    row_blocks: int
    count: int
    extent: Triple
    front: int

    @property
    def elements(self) -> int:
        """Values of a phase of the copy."""
        return self.entries * prod(self.extent)

    @staticmethod
    def of(product: DepthwiseProduct) -> "_GroupBlocks":
        """Blocks that fit, or whose rows overlap by half at most, of few enough products."""
        axes = [_Axis.of(product, axis) for axis in range(SPATIAL_RANK)]
        extent = [axis.extent for axis in axes]
        channels = product.convolution.output_channels if product.kind == WEIGH_OUTPUT else 1
        elements = prod(extent) * channels * _phases(product)[0]
        batch = product.convolution.batch
        cut = next((axis for axis in range(SPATIAL_RANK) if axes[axis].result > 1), -1)
        results = prod(axis.result for axis in axes)
        products = results * product.convolution.output_channels * product.convolution.taps
        is_short = products <= _BLOCK_PRODUCTS or _is_in_place(product)
        if (elements <= _COPY_ELEMENTS and is_short) or cut < 0:
            # Whole entries: as many as fit, then evened out over the blocks.
            most = max(1, min(batch, _COPY_ELEMENTS // elements))
            batches = -(-batch // most)
            return _GroupBlocks(
                entries=-(-batch // batches),
                axis=-1,
                rows=axes[0].result,
                row_blocks=1,
                count=batches,
                extent=(extent[0], extent[1], extent[2]),
                front=_front(axes, extent, -1),
            )
        # Rows of one entry: as many as fit, but at least twice the span, so that neighbouring
        # blocks repeat no more than half of their copies.
        span, result = axes[cut].span, axes[cut].result
        fitting = _COPY_ELEMENTS * extent[cut] // elements - span
        most = max(1, _BLOCK_PRODUCTS * result // products)
        row_blocks = -(-result // min(most, max(1, fitting, 2 * span)))
        rows = -(-result // row_blocks)
        extent[cut] = rows + span
        return _GroupBlocks(
            entries=1,
            axis=cut,
            rows=rows,
            row_blocks=-(-result // rows),
            count=batch * -(-result // rows),
            extent=(extent[0], extent[1], extent[2]),
            front=_front(axes, extent, cut),
        )


def _front(axes: list[_Axis], extent: list[int], cut: int) -> int:
    before = [0 if number == cut else axis.before for number, axis in enumerate(axes)]
    return (before[0] * extent[1] + before[1]) * extent[2] + before[2]


def _unit_blocks(product: DepthwiseProduct, blocks: _GroupBlocks) -> int:
    convolution = product.convolution
    # A unit takes as many blocks as it needs to be worth a slice, also of several groups.
    products = blocks.elements * convolution.output_channels * convolution.taps
    return min(max(1, _UNIT_PRODUCTS // products), convolution.groups * blocks.count)


def _line(product: DepthwiseProduct, blocks: _GroupBlocks) -> int:
    """Values of images that are not plain: of a whole block, or of a plane's moved part."""
    convolution, plain = product.convolution, _plain_images(product)
    if _is_in_place(product):
        second = plain[1] if product.kind == COMPARE else plain[2]
        images = zip((plain[0], second), _sizes(product), strict=True)
        return blocks.entries * sum(prod(size) for image, size in images if image == _NOT_PLAIN)
    if _NOT_PLAIN not in plain:
        return 0
    stride = convolution.stride[blocks.axis]
    return max(
        _rows_values(convolution.input_size, stride, blocks),
        _rows_values(convolution.output_size, 1, blocks),
    )


def _sizes(product: DepthwiseProduct) -> tuple[Triple, Triple]:
    """Sizes of the source and of the other image."""
    image, output = product.convolution.input_size, product.convolution.output_size
    return (output, image) if product.kind == WEIGH_OUTPUT else (image, output)


def _rows_values(size: Triple, stride: int, blocks: _GroupBlocks) -> int:
    """Values of a plane that a block reads: all, unless it is cut along its outermost axis."""
    if blocks.axis < 0 or prod(size[: blocks.axis]) > 1:
        return prod(size)
    rows = min(size[blocks.axis], blocks.extent[blocks.axis] * stride)
    return rows * prod(size[blocks.axis + 1 :])


def _phases(product: DepthwiseProduct) -> tuple[int, int]:
    """Phases of the source and of the result."""
    phases = prod(product.convolution.stride)
    return (1, phases) if product.kind == WEIGH_OUTPUT else (phases, 1)


def _is_in_place(product: DepthwiseProduct) -> bool:
    """Whether planes are computed without a copy: usual kernels with one output channel."""
    convolution = product.convolution
    # Kernels for 3 x 3 and 5 x 5 exist; larger strides, dilation and depth need the padded copy.
    kernel, padding = convolution.kernel_size, convolution.padding
    depths = (padding[0], convolution.input_size[0], convolution.output_size[0])
    gathers = product.kind == WEIGH_IMAGE
    return (
        kernel in _IN_PLACE_KERNELS
        and convolution.stride in (_IN_PLACE_STRIDES[:1] if gathers else _IN_PLACE_STRIDES)
        and convolution.dilation == (1, 1, 1)
        and depths == (0, 1, 1)
        and convolution.output_channels == 1
        and (max(padding) < kernel[-1] or not gathers)
        and max(map(prod, _sizes(product))) <= _MOST_IN_PLACE
    )


def _plain_images(product: DepthwiseProduct) -> tuple[PlainImage, PlainImage, PlainImage]:
    """Layouts of source, other and result; one of the three is the weight, no image."""
    return (
        _plain(product.source),
        _plain(product.other) if product.kind == COMPARE else _NO_IMAGE,
        _plain(product.result) if product.kind != COMPARE else _NO_IMAGE,
    )


def _plain(image: Operand) -> PlainImage:
    """The image's layout if every plane is a run of float32 values that need no rounding."""
    channels = [axis for axis in image.parts[0] if axis[0] > 1]
    batch, *positions = image.parts[1]
    if image.dtype != DataType.FLOAT or image.number_format != FLOAT or len(channels) > 1:
        return _NOT_PLAIN
    pitch = 1
    for size, step in reversed(positions):
        if size > 1 and step != pitch:
            return _NOT_PLAIN
        pitch *= size
    return PlainImage(1, image.offset, channels[0][1] if channels else 0, batch[1])
