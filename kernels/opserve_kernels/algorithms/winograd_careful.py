"""Correlations of padded planes by definition, but for the products of padding.

They serve what Winograd's transforms cannot: they would spread what is infinite or not a number
over whole tiles, and overflow with very large values.
"""

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.loops import compiled
from opserve_kernels.sums import PADDING

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Triple = tuple[int, int, int]
Quad = tuple[int, int, int, int]
Five = tuple[int, int, int, int, int]

_PADDING_BITS = np.int32(np.float32(PADDING).view(np.int32))


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 4), UniTuple(int64, 5))")
def add_correlation(scratch: Floats, table: Offsets, places: Quad, shape: Five) -> None:
    """total[p, y, x] += sum over taps r, s of taps[r, s] * source[p, y + r, x + s].

    Args:
        scratch: The workspace.
        table: The same as int32.
        places: Of the source (planes, height + rows - 1, width + columns - 1), the taps and the
            total, and whether the taps are turned by 180 degrees.
        shape: Planes, height and width of the total; rows and columns of taps.
    """
    source, taps, total, turned = places
    planes, height, width, rows, columns = shape
    for row in range(planes * height):
        plane, y = row // height, row % height
        target = scratch[total + row * width : total + (row + 1) * width]
        for tap in range(rows * columns):
            factor = scratch[taps + (rows * columns - 1 - tap if turned else tap)]
            line = plane * (height + rows - 1) + y + tap // columns
            start = source + line * (width + columns - 1) + tap % columns
            values, bits = scratch[start : start + width], table[start : start + width]
            for x in range(width):
                product = factor * values[x]
                target[x] += np.float32(0) if bits[x] == _PADDING_BITS else product


@compiled("void(float32[::1], int32[::1], UniTuple(int64, 3), UniTuple(int64, 5))")
def add_taps(scratch: Floats, table: Offsets, places: Triple, shape: Five) -> None:
    """total[r, s] += sum over p, y, x of output[p, y, x] * image[p, y + r, x + s].

    Args:
        scratch: The workspace.
        table: The same as int32.
        places: Of the output, the image (planes, height + rows - 1, width + columns - 1) and the
            total.
        shape: Planes, height and width of the output; rows and columns of taps.
    """
    output, image, total = places
    planes, height, width, rows, columns = shape
    for row in range(planes * height):
        plane, y = row // height, row % height
        left = output + row * width
        for tap in range(rows * columns):
            line = plane * (height + rows - 1) + y + tap // columns
            right = image + line * (width + columns - 1) + tap % columns
            found = np.float32(0)
            for x in range(width):
                if table[left + x] != _PADDING_BITS and table[right + x] != _PADDING_BITS:
                    found += scratch[left + x] * scratch[right + x]
            scratch[total + tap] += found
