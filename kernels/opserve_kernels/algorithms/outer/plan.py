"""Plans of the gradient of the weight by outer products: blocks, tiles, units and workspace."""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from opserve_kernels.algorithms.correlation.plan import (
    Correlation,
    channels_of,
    is_plain,
    is_run,
    longest_blocks,
    outermost,
    rows_inside,
)
from opserve_kernels.algorithms.host import LANES, TILE_ROWS, whole_rows
from opserve_kernels.algorithms.outer.layout import OuterOperand, OuterStage, line_pitch
from opserve_kernels.convolution import SPATIAL_RANK, WIDTH, Convolution, Triple
from opserve_kernels.gradients import Operand
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

_BLOCK_PIXELS = 512  # pixels of an output block, if there are so many
_MOST_OFFSET = 1 << 31
_SET_VALUES = 1 << 10  # rows at a multiple of 4 KiB share a set of the first-level cache
_MOST_TAPS = 64  # taps of a row that are looked at: planning must not walk sizes
_TILE_ELEMENTS = 1 << 18  # sums of a tile of the gradient, 1 MiB, unless a row has more
_UNIT_PRODUCTS = 50_000_000  # multiply-adds of a unit, about a millisecond


def plan_outer(kind: int, product: Correlation, gradient: int, workspace: Workspace) -> Stage:
    """The stage of a gradient of the weight.

    Args:
        kind: The stage's number.
        product: GATHER, with X as source, the gradient as weight and Y as result.
        gradient: Place in the workspace of groups, output channels, input channels and taps; -1 for
            the gradient's tensor.
        workspace: Provides the parts that the stage needs.
    """
    stage = _stage_of(product, gradient, workspace)
    units = stage.groups * stage.blocks * (1 + stage.tiles * stage.geometry.taps)
    places = (product.source.place, product.weight.place, product.result.place)
    return Stage(kind=kind, units=units, parameters=(*places, *encode(stage)))


def _stage_of(product: Correlation, gradient: int, workspace: Workspace) -> OuterStage:
    convolution, blocks = product.convolution, _OutputBlocks.of(product.convolution)
    inputs, outputs = convolution.input_channels, convolution.output_channels
    taps = convolution.taps
    image_is_right = _image_is_right(product)
    if image_is_right:
        left, right, steps, order = outputs, inputs, (inputs * taps, taps), (0, 1, 3, 2)
    else:
        left, right, steps, order = inputs, outputs, (taps, inputs * taps), (0, 2, 3, 1)
    rows, tiles = _tiles(left, right, taps, blocks)
    sum_rows = _sum_rows(left, rows, tiles, blocks)
    place, in_workspace = _target(product.weight, gradient)
    image, output = _sides(product, image_is_right=image_is_right)
    return OuterStage(
        geometry=convolution.geometry,
        groups=convolution.groups,
        block_batch=blocks.batch,
        block_axis=blocks.axis,
        block_rows=blocks.rows,
        row_blocks=blocks.row_blocks,
        blocks=blocks.count,
        rows=rows,
        tiles=tiles,
        image_is_right=image_is_right,
        gradient=place,
        in_workspace=in_workspace,
        pairs=product.pairs,
        flag=product.flag,
        left_step=steps[0],
        right_step=steps[1],
        pixels=workspace.reserve(2 * blocks.meeting_pixels),
        line=workspace.reserve(_line(product, blocks, (image, output))),
        sums=workspace.reserve(sum_rows * taps * _rounded(right, LANES)),
        weight_format=product.weight.number_format,
        weight_layout=product.weight.view(*order),
        image=_describe(product, image, blocks.image_pixels, workspace),
        output=_describe_output(product, output, blocks, workspace),
    )


def _has_single_pixels(product: Correlation, blocks: "_OutputBlocks") -> bool:
    """Whether rows of pairs may have a last pixel without a neighbour under some tap."""
    convolution = product.convolution
    if product.pairs and blocks.axis == WIDTH and blocks.row_blocks > 1:
        return True  # rows are cut
    taps = range(min(convolution.kernel_size[WIDTH], _MOST_TAPS + 1))
    met = (convolution.tap_positions(WIDTH, tap) for tap in taps)
    return product.pairs and (len(taps) > _MOST_TAPS or any(count % 2 for count in met))


def _image_is_right(product: Correlation) -> bool:
    """Whether the image's channels are lanes, and the output's channels rows.

    Lanes are the channels that lose less by rounding up. Else, of one tap, the less numerous ones:
    the other operand may be read in place. Else those that are contiguous in the gradient, whose
    rows of sums are stored at once; else the more numerous ones, which leave fewer rows to store.
    """
    inputs, outputs = product.convolution.input_channels, product.convolution.output_channels
    image = _rounded(outputs, TILE_ROWS) * _rounded(inputs, LANES)
    output = _rounded(inputs, TILE_ROWS) * _rounded(outputs, LANES)
    if image != output:
        return image < output
    # Measured on Zen 4: 1.02 to 1.16 times as fast, with the other operand in place.
    if product.convolution.taps == 1 and inputs != outputs:
        return inputs < outputs
    _, (output_axis, *_), (input_axis, *_), _ = product.weight.parts
    if 1 in {input_axis[1], output_axis[1]}:
        return input_axis[1] == 1
    return inputs >= outputs


def _target(weight: Operand, gradient: int) -> tuple[int, int]:
    """Place of the gradient, and whether it is in the workspace."""
    # A contiguous float32 gradient is written directly, turned in registers on the way.
    if gradient < 0 and is_run(weight):
        return weight.offset, 0
    return gradient, 1


def _tiles(left: int, right: int, taps: int, blocks: "_OutputBlocks") -> tuple[int, int]:
    """Rows of a tile of the gradient, and the number of tiles."""
    width = _rounded(right, LANES)
    most = min(_TILE_ELEMENTS // (width * taps), _UNIT_PRODUCTS // (width * blocks.output_pixels))
    tiles = -(-left // max(TILE_ROWS, most))
    rows = _rounded(-(-left // tiles), TILE_ROWS)
    return rows, -(-left // rows)


def _sum_rows(left: int, rows: int, tiles: int, blocks: "_OutputBlocks") -> int:
    """Rows of sums in the workspace: of all tiles, or of one tile for a single block."""
    last_rows = whole_rows(left - (tiles - 1) * rows)
    if blocks.count > 1:
        return (tiles - 1) * rows + last_rows
    return rows if tiles > 1 else last_rows


class _Side(NamedTuple):
    """An operand: its tensor, sizes and channels of a group, and whether it is the left one."""

    operand: Operand
    size: Triple
    channels: int
    left: bool

    @property
    def channel_step(self) -> int:
        """Distance of channels, if pixels of an entry are a row of equal steps; else 0."""
        # Either channels or pixels must be contiguous: one is then copied in vectors, the other
        # transposed.
        (_, step), *more = self.operand.parts[0]
        _, *axes = self.operand.parts[1]
        view = self.operand.view()
        width, pixel_step = view.sizes[-1], view.steps[-1]
        pixels = prod(size for size, _ in axes)
        is_row = not more and width % pixels == 0 and 1 in {step, pixel_step}
        return step if is_plain(self.operand) and is_row else 0

    @property
    def needs_line(self) -> bool:
        """Whether its copy is made row by row, through a line."""
        channels = self.channels, channels_of(self.operand)
        return self.channel_step == 0 or any(count % LANES for count in channels)

    def is_in_place(self, product: Correlation) -> bool:
        """Whether the micro-kernel reads it in its tensor: left with whole tiles of rows."""
        convolution, step = product.convolution, self.channel_step
        if product.pairs or not self.left or step % _SET_VALUES == 0:
            return False
        # A copy pays for several taps.
        if convolution.taps > 1 or self.channels % TILE_ROWS:
            return False
        # Places in the table are int32.
        (_, entry_step), *_ = self.operand.parts[1]
        last = prod(self.size) * self.operand.view().steps[-1] + convolution.batch * entry_step
        has_channels = channels_of(self.operand) == convolution.groups * self.channels
        return has_channels and last < _MOST_OFFSET


def _sides(product: Correlation, *, image_is_right: bool) -> tuple[_Side, _Side]:
    """The image and the output."""
    convolution = product.convolution
    inputs, outputs = convolution.input_channels, convolution.output_channels
    return (
        _Side(product.source, convolution.input_size, inputs, not image_is_right),
        _Side(product.result, convolution.output_size, outputs, image_is_right),
    )


def _line(product: Correlation, blocks: "_OutputBlocks", sides: tuple[_Side, _Side]) -> int:
    """Values of LANES channels of an entry, for an operand that needs the line."""
    counts = blocks.image_pixels, blocks.output_pixels
    pixels = max(
        0 if side.is_in_place(product) or not side.needs_line else count // blocks.batch
        for side, count in zip(sides, counts, strict=True)
    )
    return (LANES - 1) * line_pitch(pixels) + pixels if pixels else 0


def _describe(product: Correlation, side: _Side, pixels: int, workspace: Workspace) -> OuterOperand:
    """An operand with this many pixels in a block."""
    operand, step, pitch = side.operand, side.channel_step, pixels * LANES
    in_place = side.is_in_place(product)
    copied = -(-side.channels // LANES) * pitch
    return OuterOperand(
        size=side.size,
        channels=side.channels,
        tensor_channels=channels_of(operand),
        channel_step=step,
        in_place=in_place,
        row_step=step if in_place else 1,
        vector_pitch=LANES * step if in_place else pitch,
        pixel_step=operand.view().steps[-1] if in_place else LANES,
        group_step=side.channels * step if in_place else 0,
        entry_step=operand.parts[1][0][1] if in_place else 0,
        copy=operand.offset if in_place else workspace.reserve(copied),
        singles=0,
        number_format=operand.number_format,
        layout=operand.view(),
    )


def _describe_output(
    product: Correlation, side: _Side, blocks: "_OutputBlocks", workspace: Workspace
) -> OuterOperand:
    pixels = blocks.output_pixels
    output = _describe(product, side, pixels, workspace)
    if not _has_single_pixels(product, blocks):
        return output
    singles = workspace.reserve(pixels * _rounded(side.channels, LANES))
    return output._replace(singles=singles - output.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputBlocks:
    """The cut of the output: `batch` entries, or `rows` rows of one entry along an axis.

    Attributes:
        batch: Entries of a block.
        axis: The outermost axis that is longer than 1; only along it are entries cut.
        rows: Rows of a block; the last block may have fewer.
        row_blocks: Blocks of an entry.
        count: Blocks of a group.
        image_pixels: Pixels of the image in a block, at most.
        output_pixels: Pixels of the output in a block, at most.
        meeting_pixels: Pixels of the output in a block that meet the image under a tap, at most.
    """

    batch: int
    axis: int
    rows: int
    row_blocks: int
    count: int
    image_pixels: int
    output_pixels: int
    meeting_pixels: int

    @staticmethod
    def of(convolution: Convolution) -> "_OutputBlocks":
        """Blocks of about _BLOCK_PIXELS whose image rows overlap by half at most."""
        # The same rule as for correlations: at least twice the span, so that rows of the image are
        # read twice at most.
        size, image = convolution.output_size, convolution.input_size
        axis = outermost(size, image)
        pixels_of_row = prod(size[axis + 1 :])
        stride = convolution.stride[axis]
        span = (convolution.kernel_size[axis] - 1) * convolution.dilation[axis]
        least = max(2 * span // stride, _BLOCK_PIXELS // pixels_of_row, 1)
        rows = -(-size[axis] // max(1, round(size[axis] / least)))
        row_blocks = -(-size[axis] // rows)
        batch = 1
        if row_blocks == 1:
            batches = max(1, round(convolution.batch * prod(size) / _BLOCK_PIXELS))
            batch = -(-convolution.batch // batches)
        # Blocks at the edges read fewer rows of the image; longest_blocks names the few to compare.
        numbers = longest_blocks(-convolution.padding[axis], rows * stride, row_blocks)
        image_rows = max(
            rows_inside(image[axis], first * stride - convolution.padding[axis], count)
            for first, count in (
                (row, (min(rows, size[axis] - row) - 1) * stride + span + 1)
                for row in (number * rows for number in numbers)
            )
        )
        meeting = [convolution.most_tap_positions(other) for other in range(SPATIAL_RANK)]
        meeting[axis] = min(rows, meeting[axis])
        return _OutputBlocks(
            batch=batch,
            axis=axis,
            rows=rows,
            row_blocks=row_blocks,
            count=-(-convolution.batch // batch) * row_blocks,
            image_pixels=batch * image_rows * prod(image[axis + 1 :]),
            output_pixels=batch * rows * pixels_of_row,
            meeting_pixels=batch * prod(meeting),
        )


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step
