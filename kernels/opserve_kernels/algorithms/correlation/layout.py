"""What a product of a convolution with its weight looks like as integers, to plan and loops.

    image from output    result[c] = sum over k and taps of W[k, c] * source[k]     SCATTER
    output from image    result[k] = sum over c and taps of W[k, c] * source[c]     GATHER

Both are one correlation. The stride splits positions into phases, p = u * stride + phase: with
SCATTER those of the result, each of which meets only some of the taps (no zeros are multiplied),
with GATHER those of the source. Within phases every tap is a shift:
    result[phase, u] = sum over channels and taps of the phase of W * source[its phase, u + shift]
"""

SCATTER, GATHER = range(2)
PACKED, FLAT = range(2)  # algorithms

# The parameters of a stage begin as opserve_kernels.convolution.Convolution.encode has them.
BATCH, IMAGE_CHANNELS, OUTPUT_CHANNELS, TAPS, IMAGE_PIXELS, OUTPUT_PIXELS = range(6)
IMAGE_SIZE, OUTPUT_SIZE, KERNEL, STRIDE, PADDING, DILATION = 6, 9, 12, 15, 18, 21
(
    GROUPS,
    DIRECTION,
    # Number formats of the tensors, and the channels that they have.
    SOURCE_FORMAT,
    WEIGHT_FORMAT,
    RESULT_FORMAT,
    SOURCE_CHANNELS,
    RESULT_CHANNELS,
    # Blocks of the result: entries of the batch, or rows along an axis.
    BLOCK_BATCH,
    BLOCK_AXIS,
    BLOCK_ROWS,
    ROW_BLOCKS,
    BLOCKS,
    # Units of a block: groups of lines or parts of a line, and some steps of each; a step is at
    # most DEPTH_BLOCK products of every total of a phase.
    ALGORITHM,
    GROUP_LINES,
    GROUP_WIDTH,
    LINE_PARTS,
    GROUPS_OF_LINES,
    TOTAL_PITCH,
    PHASE_TOTAL,
    UNIT_STEPS,
    STEP_UNITS,
    # Whether panels are filled from the weight where it lies.
    WEIGHT_IN_PLACE,
    # The source's padded copy: whether there is none, for the source is read in place; the place
    # where its rows are made ready, WHOLE or DIRECT; from a phase of a channel to the next, from a
    # channel to the next.
    SOURCE_IN_PLACE,
    SOURCE_LINE,
    PHASE_PITCH,
    CHANNEL_PITCH,
    # From a channel of the source or the result to the next, from an entry to the next; 0 where
    # values are rounded or do not lie side by side.
    SOURCE_CHANNEL_STEP,
    SOURCE_ENTRY_STEP,
    RESULT_CHANNEL_STEP,
    RESULT_ENTRY_STEP,
    # Places in the workspace.
    FLAGS,
    TABLE,
    WEIGHTS,
    LINE,
    SOURCE,
    PANEL,
    TOTAL,
) = range(24, 61)
# Sizes of the padded copy and the source position that it begins with, for each dimension.
EXTENT, ORIGIN = 61, 64
# Views of opserve_kernels.views.
SOURCE_VIEW, WEIGHT_VIEW, RESULT_VIEW, END = 67, 81, 95, 109

# In the place of a line: rows are the copy as they are; rows go from the tensor into the copy.
WHOLE, DIRECT = -1, -2

DEPTH_BLOCK = 256  # products that are summed in registers before they are added to the total

# The gradient of the weight takes the numbers of a GATHER whose result is its left operand, with
# other meanings of these: positions of a chunk and chunks of a block; columns of a unit and units
# of a chunk; from one row of the left operand to the next; where that operand lies, and where the
# gradient is put (-1: into its tensor).
CHUNK_PIXELS, CHUNKS = GROUP_WIDTH, LINE_PARTS
UNIT_COLUMNS, CHUNK_UNITS = UNIT_STEPS, STEP_UNITS
LEFT_PITCH, LEFT, GRADIENT = TOTAL_PITCH, WEIGHTS, PHASE_TOTAL
