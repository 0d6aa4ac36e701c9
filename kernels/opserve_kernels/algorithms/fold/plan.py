"""Plans of the fold: columns summed back into their image."""

from dataclasses import dataclass
from math import prod

from opserve_kernels.algorithms.fold.layout import FoldShape, FoldStage, Pair
from opserve_kernels.algorithms.host import LANES
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.records import encode
from opserve_kernels.views import View
from opserve_kernels.workspace import Workspace

# Of the image, for each step of a stride: sums stay in the first-level cache.
_BLOCK_ELEMENTS = 1 << 12
_MOST_STEPS = 4  # steps of a stride that make blocks larger, at most
_UNIT_VALUES = 1 << 17  # values of columns that a unit adds, about 0.1 ms
_PART_VALUES = 1 << 20  # values that a part adds, about a millisecond
_TAP_VALUES = 16  # values that take as long as starting a tap


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A fold: columns (planes, taps, positions) into an image (planes, height, width).

    Attributes:
        planes: Channels of all entries of a batch.
        shape: The image and the kernel's positions.
        number_format: Format that sums are rounded to before they are cast.
        source: View of the columns.
        result: View of the image.
    """

    planes: int
    shape: FoldShape
    number_format: int
    source: View
    result: View


# Additions of whole vectors end fewer than LANES values behind a row of sums.
def plan_fold(
    fold: Fold, algorithm: Algorithm, workspace: Workspace
) -> tuple[int, tuple[int, ...]]:
    """Work units of a fold, and the parameters of algorithms.fold.loops.run_fold."""
    permuted, shape = algorithm is Algorithm.PERMUTE, fold.shape
    height, width = shape.size
    phases = min(shape.stride[1], width)
    columns = -(-width // phases)
    source_plain, result_plain = _are_plain(fold)
    row_pitch = columns + LANES
    rows = _rows(fold, (columns if permuted else row_pitch) * phases, permuted=permuted)
    blocks = -(-height // rows)
    block_values = rows * width * prod(shape.kernel) // prod(shape.stride)
    unit_parts = max(1, _UNIT_VALUES // max(1, block_values))
    loaded = min(shape.positions[0], (rows - 1) // shape.stride[0] + 1) * shape.positions[1]
    part_rows, part_taps = shape.kernel if permuted else _part(fold, loaded)
    parts = -(-shape.kernel[0] // part_rows) * -(-shape.kernel[1] // part_taps)
    stage = FoldStage(
        planes=fold.planes,
        shape=shape,
        number_format=fold.number_format,
        source_plain=source_plain,
        result_plain=result_plain,
        permuted=permuted,
        block_rows=rows,
        blocks=blocks,
        part_rows=part_rows,
        part_taps=part_taps,
        parts=parts,
        unit_parts=unit_parts,
        phases=phases,
        columns=columns,
        row_pitch=row_pitch,
        phase_pitch=rows * row_pitch,
        sums=workspace.reserve(0 if permuted else phases * rows * row_pitch),
        values=workspace.reserve(0 if source_plain else loaded),
        lines=workspace.reserve(0 if result_plain else rows * width),
        source_layout=fold.source,
        result_layout=fold.result,
    )
    return -(-fold.planes * blocks * parts // unit_parts), encode(stage)


def fold_algorithms(fold: Fold) -> list[Algorithm]:
    """Algorithms of a fold, the fastest first: PERMUTE if every pixel is under one tap."""
    # The kernel's positions tile the image exactly, without gap, overlap or rest.
    covered = tuple(p * s for p, s in zip(fold.shape.positions, fold.shape.stride, strict=True))
    is_permutation = (
        fold.shape.kernel == fold.shape.stride
        and fold.shape.dilation == (1, 1)
        and fold.shape.padding == (0, 0)
        and covered == fold.shape.size
    )
    if is_permutation and all(_are_plain(fold)):
        return [Algorithm.PERMUTE, Algorithm.FOLD]
    return [Algorithm.FOLD]


def _rows(fold: Fold, row: int, *, permuted: bool) -> int:
    """Rows of a block: if possible, all rows under the same positions."""
    (height, _), stride = fold.shape.size, fold.shape.stride[0]
    if permuted:
        return min(height, max(1, _BLOCK_ELEMENTS // row) * stride)
    fitting = max(1, _BLOCK_ELEMENTS * min(stride, _MOST_STEPS) // row)
    # A multiple of the stride, if it fits: rows under the same positions are then in one block.
    return min(height, fitting // stride * stride or fitting)


def _part(fold: Fold, values: int) -> Pair:
    """Rows of taps, and taps of a row, in a part, where each tap has `values` in a block."""
    # Short rows cost as much as _TAP_VALUES values, for beginning a tap takes that long.
    down, across = fold.shape.kernel
    most = max(1, _PART_VALUES // max(values, _TAP_VALUES))
    return min(down, max(1, most // across)), min(across, most)


def _are_plain(fold: Fold) -> tuple[bool, bool]:
    """Whether every plane's columns, and every plane of the image, are a run of float32."""
    source = _is_plain(fold.source, prod(fold.shape.kernel) * prod(fold.shape.positions))
    return source, fold.number_format == FLOAT and _is_plain(fold.result, prod(fold.shape.size))


def _is_plain(view: View, count: int) -> bool:
    """Whether every `count` elements are a run of float32."""
    size, step = view.sizes[-1], view.steps[-1]
    return view.element_type == FLOAT and (count == 1 or (step == 1 and size % count == 0))
