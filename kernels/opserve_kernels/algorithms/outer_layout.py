"""What a gradient of the weight by outer products looks like as integers, to plan and loops."""

from opserve_kernels.algorithms.host import LANES
from opserve_kernels.views import VIEW_LENGTH

# The parameters of a stage begin as opserve_kernels.convolution.Convolution.encode has them.
BATCH, TAPS, IMAGE_SIZE, OUTPUT_SIZE, KERNEL, STRIDE, PADDING, DILATION = 0, 3, 6, 9, 12, 15, 18, 21
(
    GROUPS,
    # Blocks of the output: entries of the batch, or rows of one along an axis.
    BLOCK_BATCH,
    BLOCK_AXIS,
    BLOCK_ROWS,
    ROW_BLOCKS,
    BLOCKS,
    # Tiles of the gradient: channels of the left operand, all of the right.
    ROWS,
    TILES,
    # Where the operands are described, below.
    LEFT,
    RIGHT,
    # Where the gradient is put: -1, through its view, or a place in its tensor or the workspace;
    # there the steps of its left and right channels, taps lie beside each other.
    GRADIENT,
    IN_WORKSPACE,
    LEFT_STEP,
    RIGHT_STEP,
    # Places in the workspace.
    PIXELS,
    LINE,
    SUMS,
    # The gradient's view, by groups, left channels, taps and right channels.
    WEIGHT_FORMAT,
    WEIGHT_VIEW,
) = range(24, 43)

# The operands: whether it is the image; channels of a group, and those that the tensor has; how
# far these lie apart in it (0: pixels are no row of equal steps, or not plain float32); from one
# vector of channels to the next in the copy, and where that lies; number format and view.
IMAGE = WEIGHT_VIEW + VIEW_LENGTH
IS_IMAGE, CHANNELS, TENSOR_CHANNELS, CHANNEL_STEP, VECTOR_PITCH, COPY, FORMAT, VIEW = range(8)
OUTPUT = IMAGE + VIEW + VIEW_LENGTH

DEPTH = 256  # pixels that are summed in registers, at most, before they are added to the sums


def line_pitch(pixels: int) -> int:
    """From one row of pixels to the next where they are at hand: not the same set of the cache."""
    return (pixels // LANES | 1) * LANES + LANES
