"""What a depthwise stage looks like as integers, to plan and loops.

Every group has one channel c of the image X and some channels k of the output Y:

    WEIGH_OUTPUT    X[c] = sum over k and taps of W[k] * Y[k], shifted         grad_image
    WEIGH_IMAGE     Y[k] = sum over taps of W[k] * X[c], shifted               grad_output
    COMPARE         W[k, tap] = sum over positions of Y[k] * X[c], shifted     grad_weight

The stride splits the image into phases, x = u * stride + phase: within phases every tap is a shift.
The source, Y for the first and X for the others, is copied into planes (extent) wide enough that
what a shift reads beyond a row is padding, that of the next row or plane being the same as this
one's. So a whole block of planes is one run, whose sums at padding are left out at the end:

    a b c .        weight * run shifted to the left + weight * run + ...
    d e f .   ->   a b c . d e f . g h i .
    g h i .
"""

WEIGH_OUTPUT, WEIGH_IMAGE, COMPARE = range(3)

# The parameters of a stage begin as opserve_kernels.convolution.Convolution.encode has them.
BATCH, IMAGE_CHANNELS, OUTPUT_CHANNELS, TAPS, IMAGE_PIXELS, OUTPUT_PIXELS = range(6)
IMAGE_SIZE, OUTPUT_SIZE, KERNEL, STRIDE, PADDING, DILATION = 6, 9, 12, 15, 18, 21
(
    GROUPS,
    KIND,
    # Number formats.
    SOURCE_FORMAT,
    OTHER_FORMAT,
    RESULT_FORMAT,
    # Blocks of a group: entries of the batch, or rows along an axis; -1 is no axis.
    BLOCK_ENTRIES,
    CUT_AXIS,
    BLOCK_ROWS,
    ROW_BLOCKS,
    BLOCKS,
    UNIT_BLOCKS,
    # Whether blocks are computed where they lie, by opserve_kernels.algorithms.depthwise.planes.
    IN_PLACE,
    RESULT_PHASES,
    # Pitches of the copy, and of the sums of a phase.
    PHASE_PITCH,
    CHANNEL_PITCH,
    TOTAL_PITCH,
    # Places in the workspace; LINE to END are PADDING before the first block.
    TABLE,
    WEIGHTS,
    LINE,
    COPY,
    SOURCE,
    OTHER,
    TOTAL,
    END,
) = range(24, 48)
# Of a plane of the copy, and the shift that is the first of a block's rows, for each dimension.
EXTENT, BASE = 48, 51
# Of an image whose planes are runs of float32: 1, where the first starts, and from one channel and
# one entry of the batch to the next. Zeros for any other.
SOURCE_PLAIN, OTHER_PLAIN, RESULT_PLAIN = 54, 58, 62
# Views of opserve_kernels.views.
SOURCE_VIEW, OTHER_VIEW, RESULT_VIEW = 66, 80, 94
