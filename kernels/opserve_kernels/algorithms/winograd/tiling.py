"""The cut of planes into tiles, and of tiles into blocks."""

from dataclasses import dataclass
from math import prod

from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS
from opserve_kernels.algorithms.winograd.layout import POINTS_OF_AXIS, TILE_RESULTS
from opserve_kernels.convolution import Convolution, Triple

_PANEL_COST = 0.5  # cost of a panel besides its vectors, in vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Tiles of an image whose phases of the dilation are planes.

    Attributes:
        batch: Entries of the batch.
        kernel: Taps along height and width.
        dilation: Phases along height and width.
        down: Rows of tiles of a plane.
        across: Tiles of a row.
    """

    batch: int
    kernel: tuple[int, int]
    dilation: tuple[int, int]
    down: int
    across: int

    @property
    def results(self) -> tuple[int, int]:
        """Results of a tile, along height and width."""
        return TILE_RESULTS[self.kernel[0]], TILE_RESULTS[self.kernel[1]]

    @property
    def points(self) -> int:
        """Points of a tile."""
        return prod(POINTS_OF_AXIS if taps > 1 else 1 for taps in self.kernel)

    @property
    def phases(self) -> int:
        """Planes of an entry."""
        return self.dilation[0] * self.dilation[1]

    @property
    def tiles(self) -> int:
        """Tiles of all entries."""
        return self.batch * self.phases * self.down * self.across

    @staticmethod
    def of(convolution: Convolution, size: Triple) -> "Tiling":
        """The tiles of an image of this size."""
        _, *kernel = convolution.kernel_size
        _, down, across = convolution.dilation
        return Tiling(
            batch=convolution.batch,
            kernel=(kernel[0], kernel[1]),
            dilation=(down, across),
            down=-(-size[1] // (down * TILE_RESULTS[kernel[0]])),
            across=-(-size[2] // (across * TILE_RESULTS[kernel[1]])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TileBlocks:
    """Blocks of entries, or of rows of tiles of one entry.

    Attributes:
        batch: Entries of a block.
        rows: Rows of tiles of a block.
        row_blocks: Blocks of an entry.
        count: Number of all blocks.
        across: Tiles of a row.
        planes: Planes of a channel in a block.
    """

    batch: int
    rows: int
    row_blocks: int
    count: int
    across: int
    planes: int

    @property
    def tiles(self) -> int:
        """Tiles of a block."""
        return self.planes * self.rows * self.across

    @staticmethod
    def of(tiling: Tiling, most: int) -> "TileBlocks":
        """The cheapest blocks of at most so many tiles, but at least one row of an entry."""
        # Entries are taken together if one fits, else one entry is cut into rows of tiles.
        row = tiling.phases * tiling.across
        entry = row * tiling.down
        if entry <= most:
            batch = _part(tiling.batch, entry, most)
            rows, row_blocks = tiling.down, 1
        else:
            batch, rows = 1, _part(tiling.down, row, most)
            row_blocks = -(-tiling.down // rows)
        return TileBlocks(
            batch=batch,
            rows=rows,
            row_blocks=row_blocks,
            count=-(-tiling.batch // batch) * row_blocks,
            across=tiling.across,
            planes=batch * tiling.phases,
        )


def _part(count: int, tiles: int, most: int) -> int:
    """Number of things to take together, of `count` things with so many tiles each.

    A vector that is not full costs as much as a full one, and so do panels, in part. Parts of whole
    panels waste nothing except in the rest, and no part wastes less. Among any TILE_COLUMNS
    consecutive parts, one has whole panels, so comparing the largest parts is enough.
    """

    def block(part: int) -> float:
        return -(-part * tiles // LANES) - _PANEL_COST * (-part * tiles // TILE_COLUMNS)

    def cost(part: int) -> float:
        return count // part * block(part) + block(count % part)

    # Only the largest TILE_COLUMNS parts are compared: planning must not walk sizes.
    largest = min(count, max(1, most // tiles))
    return min(range(largest, max(0, largest - TILE_COLUMNS), -1), key=cost)
