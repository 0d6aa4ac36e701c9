"""Plans of the fold: columns summed back into the image that they were taken from."""

from dataclasses import dataclass
from math import prod

from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.views import VIEW_RANK
from opserve_kernels.workspace import Workspace

Pair = tuple[int, int]

# Places of the parameters: sizes of the image, positions of a block on it, ...
PLANES, HEIGHT, WIDTH, HIGH, WIDE = range(5)
KERNEL, DILATION, PADDING, STRIDE = 5, 7, 9, 11
(
    NUMBER_FORMAT,
    # Whether a plane's columns, and a plane of the image, are a run of float32; whether the first
    # are and every pixel has one of them.
    SOURCE_PLAIN,
    RESULT_PLAIN,
    PERMUTED,
    # Rows of the image in a block of a plane, blocks of a plane; rows of taps and taps of a row in
    # a part of a block, parts of a block; parts of a unit.
    BLOCK_ROWS,
    BLOCKS,
    PART_ROWS,
    PART_TAPS,
    PARTS,
    UNIT_PARTS,
    # Sums of a block: (phases, rows, columns of a phase), with LANES values behind a row; phases
    # that have no column are left out.
    PHASES,
    COLUMNS,
    ROW_PITCH,
    PHASE_PITCH,
    # Places in the workspace.
    SUMS,
    VALUES,
    LINES,
) = range(13, 30)
SOURCE_VIEW, RESULT_VIEW = 30, 44

_BLOCK_ELEMENTS = (
    1 << 12
)  # of the image, for each step of a stride: sums stay in the first-level cache
_MOST_STEPS = 4  # of a stride that make blocks larger
_UNIT_VALUES = 1 << 17  # columns' values that a unit adds, about 0.1 ms
_PART_VALUES = 1 << 20  # that a part adds, about a millisecond
_TAP_VALUES = 16  # that take as long as beginning a tap


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What is folded: columns (planes, taps, positions) into an image (planes, height, width).

    Attributes:
        planes: Channels of all entries of a batch.
        size: Of the image.
        positions: Of a block of taps on it.
        kernel: Taps.
        dilation: Distance of taps.
        padding: Before and behind the image.
        stride: Steps between positions.
        number_format: What sums are rounded to before they are cast.
        source: View of the columns.
        result: View of the image.
    """

    planes: int
    size: Pair
    positions: Pair
    kernel: Pair
    dilation: Pair
    padding: Pair
    stride: Pair
    number_format: int
    source: tuple[int, ...]
    result: tuple[int, ...]


def plan_fold(
    fold: Fold, algorithm: Algorithm, workspace: Workspace
) -> tuple[int, tuple[int, ...]]:
    """Work units of a fold and the parameters of opserve_kernels.algorithms.fold.run_fold."""
    permuted = algorithm is Algorithm.PERMUTE
    height, width = fold.size
    phases = min(fold.stride[1], width)
    columns = -(-width // phases)
    taps = prod(fold.kernel)
    source_plain, result_plain = _are_plain(fold)
    row_pitch = columns + LANES
    rows = _rows(fold, (columns if permuted else row_pitch) * phases, permuted=permuted)
    blocks = -(-height // rows)
    unit_parts = max(1, _UNIT_VALUES // max(1, rows * width * taps // prod(fold.stride)))
    loaded = min(fold.positions[0], (rows - 1) // fold.stride[0] + 1) * fold.positions[1]
    part_rows, part_taps = fold.kernel if permuted else _part(fold, loaded)
    parts = -(-fold.kernel[0] // part_rows) * -(-fold.kernel[1] // part_taps)
    numbers = (
        *(fold.planes, *fold.size, *fold.positions),
        *(*fold.kernel, *fold.dilation, *fold.padding, *fold.stride),
        *(fold.number_format, int(source_plain), int(result_plain), int(permuted)),
        *(rows, blocks, part_rows, part_taps, parts, unit_parts),
        *(phases, columns, row_pitch, rows * row_pitch),
        workspace.reserve(0 if permuted else phases * rows * row_pitch),
        workspace.reserve(0 if source_plain else loaded),
        workspace.reserve(0 if result_plain else rows * width),
    )
    units = -(-fold.planes * blocks * parts // unit_parts)
    return units, (*numbers, *fold.source, *fold.result)


def fold_algorithms(fold: Fold) -> list[Algorithm]:
    """What can compute a fold, the fastest first: PERMUTE if every pixel is under one tap."""
    covered = tuple(p * s for p, s in zip(fold.positions, fold.stride, strict=True))
    is_permutation = (
        fold.kernel == fold.stride
        and fold.dilation == (1, 1)
        and fold.padding == (0, 0)
        and covered == fold.size
    )
    if is_permutation and all(_are_plain(fold)):
        return [Algorithm.PERMUTE, Algorithm.FOLD]
    return [Algorithm.FOLD]


def _rows(fold: Fold, row: int, *, permuted: bool) -> int:
    """Rows of a block: where they can be, all that are under the same positions."""
    (height, _), stride = fold.size, fold.stride[0]
    if permuted:
        return min(height, max(1, _BLOCK_ELEMENTS // row) * stride)
    fitting = max(1, _BLOCK_ELEMENTS * min(stride, _MOST_STEPS) // row)
    return min(height, fitting // stride * stride or fitting)


def _part(fold: Fold, values: int) -> Pair:
    """Rows of taps and taps of a row that a part adds, if each has so many values in a block."""
    down, across = fold.kernel
    most = max(1, _PART_VALUES // max(values, _TAP_VALUES))
    return min(down, max(1, most // across)), min(across, most)


def _are_plain(fold: Fold) -> tuple[bool, bool]:
    """Whether every plane's columns, and every plane of the image, are a run of float32."""
    source = _is_plain(fold.source, prod(fold.kernel) * prod(fold.positions))
    return source, fold.number_format == FLOAT and _is_plain(fold.result, prod(fold.size))


def _is_plain(view: tuple[int, ...], count: int) -> bool:
    """Whether every `count` elements are a run of float32."""
    size, step = view[1 + VIEW_RANK], view[-1]
    return view[0] == FLOAT and (count == 1 or (step == 1 and size % count == 0))
