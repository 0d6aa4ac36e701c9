"""What a Winograd product looks like as integers, to plan and loops.

Positions are split into the phases of the dilation, p = u * dilation + phase: every phase is a
plane of its own whose taps lie side by side. Planes are cut into tiles, along an axis of 3 taps of
4 results and of 5 taps of 2, so that 6 values are needed; an axis of one tap is left as it is. A
block is some entries of the batch, or rows of tiles of one entry; its tiles are counted entry by
entry, phase by phase, row by row.

    image from output, output from image (product)
        total[xi] (result's channels, tiles) = weight[xi] (channels, depth) @ source[xi]
    weight from output and image (weight product)
        total[xi] (output's channels, image's channels) = output[xi] (channels, tiles) @ image[xi]

Left sides are panels of TILE_ROWS channels, right sides of TILE_COLUMNS tiles or channels. Planes
of a point xi are PITCH_GAP more than needed apart: powers of two would fall into the same lines of
the cache.
"""

# The parameters of a stage begin as opserve_kernels.convolution.Convolution.encode has them.
BATCH, IMAGE_CHANNELS, OUTPUT_CHANNELS, WEIGHT_TAPS = range(4)
IMAGE_SIZE, OUTPUT_SIZE, KERNEL, PADDING, DILATION = 6, 9, 12, 18, 21
(
    GROUPS,
    # Of a product only: opserve_kernels.algorithms.product.SCATTER or GATHER.
    DIRECTION,
    # Number formats of the tensors, and the channels that they have. In a weight product the left
    # side is the output, the right side the image and the result the weight.
    LEFT_FORMAT,
    RIGHT_FORMAT,
    RESULT_FORMAT,
    LEFT_CHANNELS,
    RIGHT_CHANNELS,
    RESULT_CHANNELS,
    # Points of a tile, its results along both axes, and tiles of a plane. Blocks: entries of the
    # batch, rows of tiles, how many blocks; tiles of one, in a product a multiple of TILE_COLUMNS.
    POINTS,
    RESULTS_DOWN,
    RESULTS_ACROSS,
    TILES_DOWN,
    TILES_ACROSS,
    BLOCK_BATCH,
    BLOCK_ROWS,
    ROW_BLOCKS,
    BLOCKS,
    TILES,
    # Units: channels that one loads; in a product, channels of the source that the left side holds
    # at a time; channels of a chunk, which a unit multiplies, and chunks.
    LOADED,
    LEFT_DEPTH,
    CHUNK_CHANNELS,
    CHUNKS,
    # From a point xi to the next.
    LEFT_PITCH,
    RIGHT_PITCH,
    TOTAL_PITCH,
    # Places in the workspace: a flag that is not 0 where a direct algorithm computes, offsets of
    # tiles and of lanes, a line of values, padded copies, both sides, the total and the result's
    # planes.
    FLAG,
    TABLE,
    LINE,
    COPY,
    LEFT,
    RIGHT,
    TOTAL,
    PLANES,
) = range(24, 57)
# Views of opserve_kernels.views.
LEFT_VIEW, RIGHT_VIEW, RESULT_VIEW = 57, 71, 85

TILE_RESULTS = {1: 1, 3: 4, 5: 2}
"""Results of a tile along an axis with so many taps."""

KERNELS = frozenset({(3, 3), (5, 5), (1, 3)})
"""Height and width of what there are transforms for."""

POINTS_OF_AXIS = 6
LIMIT = 2.0**48  # opserve_kernels.algorithms.winograd.transforms derives it, of so many terms
MOST_TERMS = 1 << 19
PITCH_GAP = 80
PANEL_VALUES = 6144  # of the right side that stay in the first-level cache: 24 KiB
LINE_DEPTH = 64  # channels of the source whose taps are read at a time, if rows are the result's
