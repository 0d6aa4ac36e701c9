"""A correlation of an image with a weight, and the blocks in which it is computed."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from math import gcd, prod

from opserve_kernels.algorithms.correlation.layout import (
    DIRECT,
    GATHER,
    NO_BIAS,
    SCATTER,
    WHOLE,
    CorrelationStage,
    ImageTensor,
)
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS
from opserve_kernels.convolution import SPATIAL_RANK, WIDTH, Convolution, Triple
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.tensor import DataType
from opserve_kernels.views import merge_axes

NO_FLAG = -1
"""In place of a flag."""

_COPY_ELEMENTS = 1 << 18  # values of a block's padded copy, 1 MiB, unless its rows overlap too much
_MET_SHARE = 0.9  # of the rows under taps that are in the image, at most, for sums by taps
_MOST_ROWS = 64  # rows of taps that are looked at: planning must not walk sizes
_MOST_OFFSET = 1 << 31  # offsets in a table are int32


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A product of a direct algorithm.

    Attributes:
        direction: SCATTER or GATHER.
        convolution: The geometry.
        source: The operand that the weight is multiplied with: Y with SCATTER, X with GATHER.
        weight: W.
        result: The other image.
        flag: Place in the workspace of a value that is 0 afterwards if all values suited pairs;
            NO_FLAG for products without pairs.
        bias: Place in the workspace of a value for each channel of the result, which is added to
            complete sums; or NO_BIAS.
    """

    direction: int
    convolution: Convolution
    source: Operand
    weight: Operand
    result: Operand
    flag: int = NO_FLAG
    bias: int = NO_BIAS

    @property
    def pairs(self) -> bool:
        """Whether BF16 values are multiplied and added in pairs."""
        return self.flag != NO_FLAG

    @property
    def places(self) -> Triple:
        """Places of the tensors' buffers among those of the call: source, weight, result."""
        return self.source.place, self.weight.place, self.result.place

    @property
    def source_channels(self) -> int:
        """Channels of a group that are summed over."""
        scatters = self.direction == SCATTER
        return self.convolution.output_channels if scatters else self.convolution.input_channels

    @property
    def summed_channels(self) -> int:
        """The same, or pairs of them."""
        return -(-self.source_channels // 2) if self.pairs else self.source_channels

    @property
    def result_channels(self) -> int:
        """Channels of a group of the result."""
        scatters = self.direction == SCATTER
        return self.convolution.input_channels if scatters else self.convolution.output_channels

    @property
    def source_size(self) -> Triple:
        """Positions of the source."""
        scatters = self.direction == SCATTER
        return self.convolution.output_size if scatters else self.convolution.input_size

    @property
    def result_size(self) -> Triple:
        """Positions of the result."""
        scatters = self.direction == SCATTER
        return self.convolution.input_size if scatters else self.convolution.output_size

    @property
    def result_stride(self) -> Triple:
        """Phases of the result along each axis."""
        return self.convolution.stride if self.direction == SCATTER else (1, 1, 1)

    @property
    def phase_size(self) -> Triple:
        """Positions of the result in its first phase, the largest."""
        if self.direction == GATHER:
            return self.convolution.output_size
        sizes = zip(self.convolution.input_size, self.convolution.stride, strict=True)
        d, h, w = (-(-size // stride) for size, stride in sizes)
        return d, h, w

    @property
    def source_phases(self) -> int:
        """Phases of the source's copy."""
        return 1 if self.direction == SCATTER else prod(self.convolution.stride)

    @property
    def result_phases(self) -> int:
        """Phases of the result."""
        return prod(self.convolution.stride) if self.direction == SCATTER else 1

    def phases_by_taps(self, axis: int) -> dict[int, int]:
        """Numbers of phases of the result along an axis, by the number of taps that each meets.

        A phase meets every `period`-th tap from its first one on, or none. Phases that meet some
        begin with different taps, so there are at most three kinds of phases.
        """
        convolution, stride = self.convolution, self.result_stride[axis]
        # Tap t meets phase p where the stride divides p + padding - t * dilation: in t this repeats
        # with the period stride / gcd(dilation, stride), and that many phases have a solution.
        period = stride // gcd(convolution.dilation[axis], stride)
        taps, longer = divmod(convolution.kernel_size[axis], period)
        kinds = Counter({taps + 1: longer})
        kinds[taps] += period - longer
        kinds[0] += stride - period
        return {count: phases for count, phases in kinds.items() if phases}

    def by_taps(self, least_channels: int) -> bool:
        """Whether sums take all channels of a tap before those of the next one.

        That is where many taps are in padding above or below whole rows, which are then left out.

        Args:
            least_channels: Divides the summed channels; 0 for products that leave nothing out.
        """
        convolution, rows = self.convolution, self.convolution.kernel_size[1]
        if not least_channels or self.source_channels % least_channels or self.pairs:
            return False
        sizes = (*self.source_size[:1], *self.phase_size[:1], *convolution.stride)
        if max(sizes) > 1 or rows > _MOST_ROWS:
            return False
        met = sum(convolution.tap_positions(1, tap) for tap in range(rows))
        return met <= _MET_SHARE * rows * convolution.output_size[1]

    def source_span(self, axis: int) -> tuple[int, int]:
        """First source position of result position 0, and how many more its taps span."""
        convolution = self.convolution
        stride, padding = convolution.stride[axis], convolution.padding[axis]
        # With SCATTER the last tap belongs to the earliest output position, so the first position
        # counts from the end of the span.
        span = (convolution.kernel_size[axis] - 1) * convolution.dilation[axis]
        if self.direction == GATHER:
            return -padding, span // stride
        first = -((span - padding) // stride)
        return first, (stride - 1 + padding) // stride - first


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBlocks:
    """The cut of the result: `batch` entries with `rows` rows of a phase along each axis.

    Attributes:
        batch: Entries of a block.
        axis: The outermost axis that is longer than 1; only along it are entries cut.
        rows: Rows of a block; the last block may have fewer.
        row_blocks: Blocks of an entry.
        count: Blocks of a group.
        extent: Positions of a phase of the source that a block needs; where it is read in place,
            planes from one entry to the next.
        origin: The source position at which the first block begins.
        channel_step: Distance of two channels of a source that is read in place, else 0.
    """

    batch: int
    axis: int
    rows: Triple
    row_blocks: int
    count: int
    extent: Triple
    origin: Triple
    channel_step: int = 0

    @property
    def pixels(self) -> int:
        """Positions of a block of the result."""
        return self.batch * prod(self.rows)

    @property
    def flat_positions(self) -> int:
        """Positions of a block's padded copy from its first pixel to its last."""
        _, high, wide = self.extent
        # Entries, planes and rows before the last row, with the padding between them.
        between = prod(self.extent) * (self.batch - 1) + (self.rows[0] - 1) * high * wide
        return between + (self.rows[1] - 1) * wide + self.rows[2]

    def with_shared_padding(self, product: Correlation) -> "ResultBlocks":
        """The same blocks, where each row's right padding is the left padding of the next row.

        Rows must have equal padding on the left, and the tensor must have all channels.
        """
        size, (first, _) = product.source_size[WIDTH], product.source_span(WIDTH)
        one_phase = product.direction == SCATTER or product.convolution.stride[WIDTH] == 1
        groups = product.convolution.groups
        has_channels = channels_of(product.source) == groups * product.source_channels
        if self.axis == WIDTH or not one_phase or not has_channels:
            return self
        # Behind the last row lie TILE_COLUMNS values. A row reads past its end by its left padding
        # and by the lanes of its last vector, so no more than the difference is shared.
        left, (deep, high, wide) = max(0, -first), self.extent
        width = max(
            self.rows[WIDTH], wide - min(left, TILE_COLUMNS - LANES), min(left + size, wide)
        )
        return replace(self, extent=(deep, high, width))

    @staticmethod
    def in_place(product: Correlation) -> "ResultBlocks | None":
        """One block of everything, if every tap can read the source in its tensor.

        That is, contiguous float32 values that need no padding, no phases and no rounding.
        """
        # Anything that is not a run of float32 needs a copy, in which it is converted.
        channel_step, entry_step = steps_of(product.source, product.source_size)
        _, high, wide = product.source_size
        lacks_channels = channels_of(product.source) < (
            product.convolution.groups * product.source_channels
        )
        length = product.source_channels * channel_step + prod(product.source_size)
        # Offsets are int32, and entries must be whole planes apart, for positions are counted in
        # planes.
        if (channel_step == 0 or lacks_channels or not _stays_inside(product)) or (
            entry_step % (high * wide) or length >= _MOST_OFFSET
        ):
            return None
        axis = outermost(product.phase_size, product.source_size)
        return ResultBlocks(
            batch=product.convolution.batch,
            axis=axis,
            rows=product.phase_size,
            row_blocks=1,
            count=1,
            extent=(entry_step // (high * wide), high, wide),
            origin=(0, 0, 0),
            channel_step=channel_step,
        )

    @staticmethod
    def of(
        product: Correlation, *, least_pixels: int, entries_elements: int = _COPY_ELEMENTS
    ) -> "ResultBlocks":
        """Blocks with enough pixels whose padded copy fits, if rows overlap by half at most.

        Args:
            product: The product.
            least_pixels: Pixels of a block at least, if there are so many.
            entries_elements: Values of the padded copy of several entries, at most.
        """
        size = product.phase_size
        origin, spans = zip(*map(product.source_span, range(SPATIAL_RANK)), strict=True)
        axis = outermost(size, product.source_size)
        per_row = product.source_channels * product.source_phases
        per_row *= prod(
            size[other] + spans[other] for other in range(SPATIAL_RANK) if other != axis
        )
        # As many rows as fit into the copy, but twice the span at least: neighbouring blocks read
        # `span` rows both, so no more than half of the copying is repeated.
        fitting = _COPY_ELEMENTS // per_row - spans[axis]
        pixels_of_row = prod(size) // size[axis]
        least = max(2 * spans[axis], -(-least_pixels // pixels_of_row), 1)
        most = min(size[axis], max(fitting, least))
        # Blocks of nearly equal size: a short last block would not fill the micro-kernel's tiles.
        row_blocks = -(-size[axis] // most)
        rows = list(size)
        rows[axis] = -(-size[axis] // row_blocks)
        batch = 1
        # Small images share a block until it has pixels enough for whole tiles.
        if row_blocks == 1:
            fitting = entries_elements // (per_row * (size[axis] + spans[axis]))
            batch = max(1, min(product.convolution.batch, fitting, -(-least_pixels // prod(size))))
        batches = -(-product.convolution.batch // batch)
        return ResultBlocks(
            batch=batch,
            axis=axis,
            rows=(rows[0], rows[1], rows[2]),
            row_blocks=row_blocks,
            count=batches * row_blocks,
            extent=(rows[0] + spans[0], rows[1] + spans[1], rows[2] + spans[2]),
            origin=(origin[0], origin[1], origin[2]),
        )


def _stays_inside(product: Correlation) -> bool:
    """Whether every tap at every position of the result reads the source, in one phase."""
    spans = map(product.source_span, range(SPATIAL_RANK))
    sizes = zip(spans, product.phase_size, product.source_size, strict=True)
    inside = all(first == 0 and rows + span <= size for (first, span), rows, size in sizes)
    return inside and product.source_phases == 1


def outermost(size: Triple, source_size: Triple) -> int:
    """The first axis along which either image is longer than 1."""
    axes = [axis for axis in range(SPATIAL_RANK) if max(size[axis], source_size[axis]) > 1]
    return axes[0] if axes else SPATIAL_RANK - 1


def source_line(product: Correlation, blocks: ResultBlocks) -> int:
    """WHOLE, DIRECT, or the number of source values that are loaded at a time for the copy."""
    # The cheapest way that the layout allows: no line at all, the line as the copy, or a line of
    # the rows that one block reads.
    if steps_of(product.source, product.source_size)[0]:
        return DIRECT
    if _takes_source_whole(product, blocks):
        return WHOLE
    # The longest line of any block; the blocks are not walked, since their number grows with the
    # size.
    size, axis = product.source_size, blocks.axis
    stride = 1 if product.direction == SCATTER else product.convolution.stride[axis]
    first, step = blocks.origin[axis], blocks.rows[axis] * stride
    most = max(
        rows_inside(size[axis], first + block * step, blocks.extent[axis] * stride)
        for block in longest_blocks(first, step, blocks.row_blocks)
    )
    return most * prod(size[axis + 1 :])


def longest_blocks(first: int, step: int, count: int) -> set[int]:
    """Numbers of a few blocks, one of which reads no fewer rows of the image than any other.

    Before the image's first row, each block reads no fewer rows than the block before it; from that
    row on, no more.

    Args:
        first: The row that the first block begins with; rows below 0 are padding.
        step: Rows from one block to the next.
        count: Blocks, all of one length except the last one, which may be shorter.
    """
    # The first block that begins inside the image, and the block before it. The last block may be
    # shorter, so the one before it counts, too.
    inside = -(first // step)
    return {min(max(0, block), count - 1) for block in (inside - 1, inside, count - 2, count - 1)}


def rows_inside(size: int, first: int, count: int) -> int:
    """How many of `count` rows from `first` on are rows of an image of `size` rows."""
    return max(0, min(first + count, size) - max(first, 0))


def _takes_source_whole(product: Correlation, blocks: ResultBlocks) -> bool:
    """Whether every block's padded copy is a run of the source, without padding or phases."""
    size, axis = product.source_size, blocks.axis
    others = [other for other in range(SPATIAL_RANK) if other != axis]
    return (
        product.source_phases == 1
        and blocks.origin == (0, 0, 0)
        and all(blocks.extent[other] == size[other] for other in others)
        and blocks.row_blocks * blocks.extent[axis] == size[axis]
    )


def steps_of(image: Operand, size: Triple) -> tuple[int, int]:
    """Distances of channels, and of entries of the batch.

    Both are 0 for an image with other values than float32, with a narrower number format, or with
    positions of an entry that are not contiguous.
    """
    # At most one axis of channels, one of entries, and one run of positions remain in a plain
    # image.
    channels, positions = (merge_axes(part) for part in image.parts)
    count = prod(size)
    side_by_side = positions and positions[-1][1] == 1 and positions[-1][0] % count == 0
    if not (is_plain(image) and side_by_side and max(len(channels), len(positions) - 1) <= 1):
        return 0, 0
    entry_step = positions[0][1] if len(positions) > 1 else count
    return channels[0][1] if channels else 1, entry_step


def is_plain(operand: Operand) -> bool:
    """Whether an operand has float32 values and no narrower number format."""
    return operand.dtype is DataType.FLOAT and operand.number_format == FLOAT


def is_run(weight: Operand) -> bool:
    """Whether a weight is plain and contiguous in the order of its parts."""
    axes = merge_axes(tuple(chain(*weight.parts)))
    return is_plain(weight) and len(axes) <= 1 and weight.view().steps[-1] == 1


def reads_weight_in_place(product: Correlation) -> bool:
    """Whether panels are filled from the weight in its tensor: whole vectors of channels only."""
    convolution = product.convolution
    gathers = product.direction == GATHER
    channels = convolution.output_channels if gathers else convolution.input_channels
    return is_run(product.weight) and channels % TILE_ROWS == 0


def channels_of(operand: Operand) -> int:
    """Channels of an image's tensor."""
    return prod(size for size, _ in operand.parts[0])


def describe(  # noqa: PLR0913  # places
    product: Correlation,
    blocks: ResultBlocks,
    *,
    flags: int,
    table: int,
    line: int,
    source: int,
    least_channels: int = 0,
) -> CorrelationStage:
    """The shared fields of a direct algorithm's record.

    Args:
        product: The product.
        blocks: Its blocks.
        flags: Place of the flag.
        table: Place of the tables.
        line: Place of a line of loaded or stored values.
        source: Place of the padded copy, or in the source.
        least_channels: As in by_taps.
    """
    phase_pitch, rows = blocks.batch * prod(blocks.extent), source_line(product, blocks)
    return CorrelationStage(
        geometry=product.convolution.geometry,
        groups=product.convolution.groups,
        direction=product.direction,
        pairs=product.pairs,
        by_taps=product.by_taps(least_channels),
        source_image=_image(product.source, product.source_size),
        result_image=_image(product.result, product.result_size),
        weight_format=product.weight.number_format,
        weight_layout=product.weight.view(),
        block_batch=blocks.batch,
        block_axis=blocks.axis,
        block_rows=blocks.rows[blocks.axis],
        row_blocks=blocks.row_blocks,
        blocks=blocks.count,
        source_line=rows if rows < 0 else line,
        phase_pitch=phase_pitch,
        channel_pitch=blocks.channel_step or product.source_phases * phase_pitch,
        flags=flags,
        table=table,
        line=line,
        source=source,
        extent=blocks.extent,
        origin=blocks.origin,
    )


def _image(image: Operand, size: Triple) -> ImageTensor:
    channel_step, entry_step = steps_of(image, size)
    return ImageTensor(
        channels=channels_of(image),
        channel_step=channel_step,
        entry_step=entry_step,
        number_format=image.number_format,
        layout=image.view(),
    )
