"""The record of a packed or flat stage: the plan fills it, the loops read it."""

from typing import NamedTuple

from opserve_kernels.algorithms.correlation.layout import CorrelationStage
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS

LAST_COLUMNS = 4 * LANES  # the last positions of a group at most that are two equal tiles
RUN_COLUMNS = 8 * TILE_COLUMNS  # positions whose panels are filled together
DEPTH_BLOCK = 256  # products summed in registers at most, before they are added to the total


class PackedStage(NamedTuple):
    """A product whose blocks are cut into groups of lines, or of parts of a line.

    A step is at most DEPTH_BLOCK products of every total of a phase.

    Attributes:
        product: Shared fields of the direct algorithms.
        flat: Whether the micro-kernel reads the padded copy directly, without panels of pixels.
        group_lines: Lines of a group.
        group_width: Positions of a line's part.
        line_parts: Parts of a line.
        groups_of_lines: Groups of a block.
        total_pitch: Distance of the totals of two channels.
        phase_total: Distance of the totals of two phases.
        unit_steps: Steps of a unit.
        step_units: Units of a group.
        weight_in_place: Whether panels are filled from the weight in its tensor.
        weight_pitch: Distance of two rows of a weight that is multiplied in its tensor, without
            panels; 0 with panels.
        source_in_place: Whether the source is read in its tensor, without a padded copy.
        into_result: Whether complete sums go from the registers into the result, without totals.
        reads_rows: Whether such sums read the source in its tensor, without panels of pixels.
        weights: Place of the weight's panels in the workspace.
        panel: Place of a panel of pixels.
        total: Place of the totals.
        bias: Place of a value for each channel of the result; or NO_BIAS.
    """

    product: CorrelationStage
    flat: int
    group_lines: int
    group_width: int
    line_parts: int
    groups_of_lines: int
    total_pitch: int
    phase_total: int
    unit_steps: int
    step_units: int
    weight_in_place: int
    weight_pitch: int
    source_in_place: int
    into_result: int
    reads_rows: int
    weights: int
    panel: int
    total: int
    bias: int
