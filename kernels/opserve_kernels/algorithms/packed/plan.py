"""Plans of the packed and flat algorithms: groups of lines, units and workspace."""

from dataclasses import dataclass
from itertools import product as cartesian
from math import prod

from opserve_kernels.algorithms.correlation.layout import GATHER
from opserve_kernels.algorithms.correlation.plan import (
    Correlation,
    ResultBlocks,
    channels_of,
    describe,
    reads_weight_in_place,
    source_line,
    steps_of,
)
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS, TILE_ROWS, VARIANT, whole_rows
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.packed.layout import (
    DEPTH_BLOCK,
    LAST_COLUMNS,
    RUN_COLUMNS,
    PackedStage,
)
from opserve_kernels.convolution import SPATIAL_RANK, Triple
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

_FEW_PANELS = 4  # panels of result channels that read the same rows, at most
_LEAST_TILES = 3  # tiles whose totals are contiguous, at least
_TOTAL_ELEMENTS = 1 << 17  # values of a group's totals, 512 KiB
_UNIT_PRODUCTS = 50_000_000  # multiply-adds of a unit, about a millisecond
_BLOCK_PIXELS = 384  # pixels of a block at least, if there are so many
_ENTRIES_ELEMENTS = 1 << 20  # values of a copy of several entries, 4 MiB: tiles read them in turn
_CACHED_WEIGHTS = 1 << 20  # values of a group's weight, 4 MiB: larger ones come from the last cache


def plan_packed(
    kind: int, product: Correlation, algorithm: Algorithm, workspace: Workspace
) -> Stage:
    """The stage of a product with PACKED or FLAT; kind is the stage's number."""
    blocks = blocks_of(product, algorithm)
    lines = _Lines.of(product, blocks, algorithm)
    groups = product.convolution.groups
    weight_units = groups * -(-product.convolution.output_channels // TILE_ROWS)
    block_units = 1 + lines.groups * lines.parts * lines.step_units
    return Stage(
        kind=kind,
        units=1 + weight_units + groups * blocks.count * block_units,
        parameters=(*product.places, *encode(_describe(product, blocks, lines, workspace))),
    )


def blocks_of(product: Correlation, algorithm: Algorithm) -> ResultBlocks:
    """The blocks with the fewest vectors of positions.

    PACKED fills its panels from the source's tensor if it can. FLAT needs a copy of the source, and
    also computes positions between the entries of a block, so often a block of one entry takes
    less.
    """
    # PACKED reads a plain source in place. FLAT tries blocks of one entry and larger ones.
    if algorithm is Algorithm.PACKED:
        least = _BLOCK_PIXELS * _uses_of_weight(product)
        return ResultBlocks.in_place(product) or _copied(product, least)
    found = (_copied(product, least) for least in (1, _BLOCK_PIXELS))
    return min(found, key=lambda blocks: blocks.count * -(-blocks.flat_positions // LANES))


def _uses_of_weight(product: Correlation) -> int:
    """How many times the usual positions use a weight's panel while it is in a nearer cache."""
    # Measured with AVX-512, 512 channels of 3x3 taps at 7x7 positions of 16 entries: 1.09 times as
    # fast. Smaller weights gain nothing, and lose where totals leave the second-level cache.
    values = product.result_channels * product.source_channels * product.convolution.taps
    return 2 if values > _CACHED_WEIGHTS else 1


def _copied(product: Correlation, least_pixels: int) -> ResultBlocks:
    blocks = ResultBlocks.of(product, least_pixels=least_pixels, entries_elements=_ENTRIES_ELEMENTS)
    return blocks.with_shared_padding(product)


def _describe(
    product: Correlation, blocks: ResultBlocks, lines: "_Lines", workspace: Workspace
) -> PackedStage:
    channels, taps = product.source_channels, product.convolution.taps
    copy = channels * product.source_phases * blocks.batch * prod(blocks.extent)
    source, reads_rows = product.source.offset, lines.run > 0 and _reads_rows(product, blocks)
    if blocks.channel_step == 0:
        # The last tile of positions reads up to TILE_COLUMNS values behind the copy.
        source = workspace.reserve(copy + TILE_COLUMNS)
    flags = product.flag if product.pairs else workspace.reserve(1)
    table = workspace.reserve(product.result_phases + 1 + 2 * taps + channels * taps)
    return PackedStage(
        weights=workspace.reserve(_weights(product, lines)),
        product=describe(
            product,
            blocks,
            flags=flags,
            table=table,
            line=workspace.reserve(_line(product, blocks, lines)),
            source=source,
            least_channels=DEPTH_BLOCK,
        ),
        panel=workspace.reserve(0 if reads_rows else lines.panel),
        total=workspace.reserve(product.result_phases * lines.phase_total),
        bias=product.bias,
        flat=not lines.gathers,
        group_lines=lines.lines,
        group_width=lines.width,
        line_parts=lines.parts,
        groups_of_lines=lines.groups,
        total_pitch=lines.pitch,
        phase_total=lines.phase_total,
        unit_steps=lines.unit_steps,
        step_units=lines.step_units,
        weight_in_place=reads_weight_in_place(product),
        weight_pitch=_weight_pitch(product, lines),
        source_in_place=blocks.channel_step > 0,
        into_result=lines.run > 0,
        reads_rows=reads_rows,
    )


def _goes_into_result(product: Correlation, blocks: ResultBlocks) -> bool:
    """Whether PACKED's sums are complete in the registers, and adjacent in the result, too."""
    # Measured on Zen 4: 1.0 to 1.5 times as fast, most where few channels are summed to many.
    # The last panel of channels must be whole, as the micro-kernel computes whole panels only.
    depth = product.summed_channels * product.convolution.taps
    has_channels = channels_of(product.result) == (
        product.convolution.groups * product.result_channels
    )
    is_plain = steps_of(product.result, product.result_size)[0] > 0 and has_channels
    whole_panels = whole_rows(product.result_channels) % TILE_ROWS == 0
    whole = prod(blocks.rows) % LANES == 0 and (whole_panels or _reads_rows(product, blocks))
    one_step = depth <= DEPTH_BLOCK and product.result_phases == 1 and blocks.row_blocks == 1
    return is_plain and whole and one_step and not (product.pairs or VARIANT.plain)


def _reads_rows(product: Correlation, blocks: ResultBlocks) -> bool:
    """Whether sums of one tap read rows of the source in its tensor, without panels of pixels."""
    # Measured on Zen 4: 1.03 to 1.6 times as fast. Few channels use a panel too rarely; more of
    # them than are summed, or many, read the rows from a farther cache too often.
    few = product.result_channels <= min(_FEW_PANELS * TILE_ROWS, product.source_channels)
    return blocks.channel_step > 0 and product.convolution.taps == 1 and few


def _weight_pitch(product: Correlation, lines: "_Lines") -> int:
    """Distance of two rows of a weight that is multiplied where it lies; 0 for one in panels."""
    # Factors of a row of sums are adjacent there: measured as fast as panels, which take up to
    # 12 % of a call to fill.
    adjacent = product.direction == GATHER and reads_weight_in_place(product)
    adjacent = adjacent and not product.by_taps(DEPTH_BLOCK)
    row = product.source_channels * product.convolution.taps
    return row if adjacent and lines.gathers and not VARIANT.plain else 0


def _weights(product: Correlation, lines: "_Lines") -> int:
    """Values of the weight's panels."""
    if _weight_pitch(product, lines):
        return 0
    channels = -(-product.result_channels // TILE_ROWS) * TILE_ROWS
    taps = product.source_channels * product.convolution.taps
    return product.convolution.groups * channels * taps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """The cut of a block into groups of lines, or of parts of a line, and of groups into units.

    Attributes:
        gathers: Whether there are panels of pixels.
        grid: Positions that are computed: the block's rows, the whole padded copy, or one line of
            everything in a result without phases.
        lines: Lines of a group.
        width: Positions of a line's part.
        parts: Parts of a line; more than one only where a group is one line.
        groups: Groups of a block.
        pitch: Distance of the totals of two channels.
        phase_total: Distance of the totals of two phases.
        depth: Products of a sum, at most.
        unit_steps: Steps of a unit.
        step_units: Units of a group.
        run: Positions whose panels are filled together, at most, for sums that go into the result;
            0 for sums that go into totals.
    """

    gathers: bool
    grid: Triple
    lines: int
    width: int
    parts: int
    groups: int
    pitch: int
    phase_total: int
    depth: int
    unit_steps: int
    step_units: int
    run: int

    @property
    def panel(self) -> int:
        """Values of the panels of pixels, whose last row ends with the last position."""
        positions = self.lines * self.width
        depth, before = min(DEPTH_BLOCK, self.depth), 0
        if self.run:
            before = max(0, -(-self.run // TILE_COLUMNS) - 2)
            positions = self.run - before * TILE_COLUMNS
            before += positions > TILE_COLUMNS
            positions -= TILE_COLUMNS if positions > LAST_COLUMNS else 0
        are_two_tiles = TILE_COLUMNS < positions <= LAST_COLUMNS
        last_row = LAST_COLUMNS // 2 if are_two_tiles else min(TILE_COLUMNS, positions)
        values = (before * depth + depth - 1) * TILE_COLUMNS + last_row
        return values if self.gathers else 0

    @staticmethod
    def of(product: Correlation, blocks: ResultBlocks, algorithm: Algorithm) -> "_Lines":
        """Groups whose totals fit into the second-level cache; units of about a millisecond."""
        # Without phases, rows and entries are one line of positions: full tiles cross their ends.
        inside, entries, gathers = blocks.rows, blocks.batch, algorithm is Algorithm.PACKED
        if gathers and product.result_phases == 1:
            inside, entries = (1, 1, blocks.batch * prod(blocks.rows)), 1
        grid = inside if gathers else blocks.extent
        rows, depths = whole_rows(product.result_channels), _phases_by_depth(product)
        into_result = gathers and _goes_into_result(product, blocks)
        least = RUN_COLUMNS if into_result else _LEAST_TILES * TILE_COLUMNS
        fitting = _TOTAL_ELEMENTS * _uses_of_weight(product) // (rows * product.result_phases)
        most = max(least, fitting // TILE_COLUMNS * TILE_COLUMNS)
        last_plane = (entries - 1) * grid[0] + inside[0] - 1
        all_lines = last_plane * grid[1] + inside[1]
        # Lines and parts are evened out over the groups; parts are whole tiles.
        lines = max(1, min(most // grid[2], all_lines))
        groups = -(-all_lines // lines)
        lines = -(-all_lines // groups)
        whole = grid[2] if lines > 1 else inside[2]
        part = -(-whole // -(-whole // most))
        width = min(whole, -(-part // TILE_COLUMNS) * TILE_COLUMNS)
        used = (lines - 1) * width + min(width, inside[2])
        pitch = -(-used // LANES) * LANES
        # A step adds at most DEPTH_BLOCK products to each total of one phase. Phases differ in
        # depth, so a unit is a number of steps.
        steps = sum(phases * max(1, -(-depth // DEPTH_BLOCK)) for depth, phases in depths)
        unit_steps = min(steps, max(1, _UNIT_PRODUCTS // (rows * lines * width * DEPTH_BLOCK)))
        return _Lines(
            gathers=gathers,
            grid=grid,
            lines=lines,
            width=width,
            parts=-(-whole // width),
            groups=groups,
            pitch=pitch,
            phase_total=0 if into_result else rows * pitch,
            depth=max(depth for depth, _ in depths),
            unit_steps=unit_steps,
            step_units=-(-steps // unit_steps),
            run=min(width, prod(blocks.rows), RUN_COLUMNS) if into_result else 0,
        )


def _phases_by_depth(product: Correlation) -> list[tuple[int, int]]:
    """Products of a sum, with the number of phases of the result that have so many."""
    axes = [product.phases_by_taps(axis).items() for axis in range(SPATIAL_RANK)]
    return [
        (product.summed_channels * prod(taps), prod(phases))
        for taps, phases in (zip(*kinds, strict=True) for kinds in cartesian(*axes))
    ]


def _line(product: Correlation, blocks: ResultBlocks, lines: _Lines) -> int:
    """Values of the line: of the weight, the source or the result, whichever needs most."""
    taps, channels = product.convolution.taps, product.convolution.input_channels
    # With phases or by taps, the weight's panels are first put in the order of all taps.
    ordered = 0
    if product.result_phases > 1 or product.by_taps(DEPTH_BLOCK):
        gathers = product.direction == GATHER
        ordered = channels if gathers else min(TILE_ROWS, product.convolution.output_channels)
    rows = 0 if reads_weight_in_place(product) else -(-channels // TILE_ROWS) * TILE_ROWS
    weight = TILE_ROWS * taps * (ordered + rows)
    return max(weight, source_line(product, blocks), _result_rows(product, blocks, lines))


def _result_rows(product: Correlation, blocks: ResultBlocks, lines: _Lines) -> int:
    # A plain result, or rows without gaps, is stored from its totals: it needs no line.
    plain = steps_of(product.result, product.result_size)[0] > 0
    as_it_is = lines.gathers or lines.grid[2] == blocks.rows[2]
    if plain or (product.result_phases == 1 and as_it_is):
        return 0
    stride, size = product.result_stride, product.result_size
    high = min(min(lines.lines, blocks.rows[1]) * stride[1], size[1])
    wide = min(min(lines.width, blocks.rows[2]) * stride[2], size[2])
    return high * wide
