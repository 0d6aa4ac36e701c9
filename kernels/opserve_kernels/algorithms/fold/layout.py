"""The record of a fold: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.views import View

Pair = tuple[int, int]


class FoldShape(NamedTuple):
    """An image and the positions of a kernel on it.

    Attributes:
        size: Height and width of the image.
        positions: Positions of the kernel, along height and width.
        kernel: Taps along height and width.
        dilation: Distance of taps.
        padding: Padding before and behind the image.
        stride: Steps between positions.
    """

    size: Pair
    positions: Pair
    kernel: Pair
    dilation: Pair
    padding: Pair
    stride: Pair


class FoldStage(NamedTuple):
    """Columns summed back into an image, block by block.

    Sums of a block are (phases, rows, columns of a phase), with LANES values behind a row. Phases
    without a column are left out.

    Attributes:
        planes: Channels of all entries of a batch.
        shape: The image and the kernel's positions.
        number_format: Format that sums are rounded to.
        source_plain: Whether a plane's columns are a run of float32.
        result_plain: Whether a plane of the image is a run of float32.
        permuted: Whether source_plain holds, and every pixel has one column.
        block_rows: Rows of the image in a block of a plane.
        blocks: Blocks of a plane.
        part_rows: Rows of taps in a part of a block.
        part_taps: Taps of a row in a part.
        parts: Parts of a block.
        unit_parts: Parts of a unit.
        phases: Phases along a row.
        columns: Columns of a phase.
        row_pitch: Distance of two rows of sums.
        phase_pitch: Distance of two phases of sums.
        sums: Place of the sums in the workspace.
        values: Place of loaded values.
        lines: Place of the rows to store.
        source_layout: View of the columns.
        result_layout: View of the image.
    """

    planes: int
    shape: FoldShape
    number_format: int
    source_plain: int
    result_plain: int
    permuted: int
    block_rows: int
    blocks: int
    part_rows: int
    part_taps: int
    parts: int
    unit_parts: int
    phases: int
    columns: int
    row_pitch: int
    phase_pitch: int
    sums: int
    values: int
    lines: int
    source_layout: View
    result_layout: View
