"""The record of a fold: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.views import View

Pair = tuple[int, int]


class FoldShape(NamedTuple):
    """An image and the blocks of taps on it.

    Attributes:
        size: Of the image.
        positions: Of a block of taps on it.
        kernel: Taps.
        dilation: Distance of taps.
        padding: Before and behind the image.
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

    Sums of a block are (phases, rows, columns of a phase), with LANES values behind a row; phases
    that have no column are left out.

    Attributes:
        planes: Channels of all entries of a batch.
        shape: Of the image and the taps.
        number_format: What sums are rounded to.
        source_plain: Whether a plane's columns are a run of float32.
        result_plain: Whether a plane of the image is a run of float32.
        permuted: Whether the first is, and every pixel has one column.
        block_rows: Rows of the image in a block of a plane.
        blocks: Of a plane.
        part_rows: Rows of taps in a part of a block.
        part_taps: Taps of a row in a part.
        parts: Of a block.
        unit_parts: Parts of a unit.
        phases: Along a row.
        columns: Of a phase.
        row_pitch: From one row of sums to the next.
        phase_pitch: From one phase of sums to the next.
        sums: Place of the sums in the workspace.
        values: Place of loaded values.
        lines: Place of rows to store.
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
