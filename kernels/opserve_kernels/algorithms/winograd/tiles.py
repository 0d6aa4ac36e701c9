"""Generate Winograd's tile transforms: as many tiles at a time as a vector has lanes.

A table of offsets defines the lanes: tiles of one channel, or the same tile of several channels.
Four values of a row at a time are loaded for every lane and transposed, four lanes by four values:

    lanes 0 4    a0 a1 a2 a3 | e0 e1 e2 e3        a0 b0 c0 d0 | e0 f0 g0 h0    value 0
    lanes 1 5    b0 b1 b2 b3 | f0 f1 f2 f3   ->   a1 b1 c1 d1 | e1 f1 g1 h1    value 1
    lanes 2 6    c0 c1 c2 c3 | g0 g1 g2 g3        a2 b2 c2 d2 | e2 f2 g2 h2    value 2
    lanes 3 7    d0 d1 d2 d3 | h0 h1 h2 h3        a3 b3 c3 d3 | e3 f3 g3 h3    value 3

Down the columns, values are transformed before they are transposed; along the rows, after.

All take one memory for all operands and a tuple of integers, with places counted in float32:

    transform_*   (source, offsets, row_pitch, target, plane_pitch, piece_pitch)
        Lane l reads a tile at source + table[offsets + l], whose rows are row_pitch apart. Point xi
        of all lanes is stored at target + xi * plane_pitch. For panels of the left side of a
        product it is stored in pieces of TILE_ROWS lanes, piece_pitch apart.
    collect_*     (source, plane_pitch, target, offsets, row_pitch)
        The reverse: lane l writes its tile to target + table[offsets + l].
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    integer,
    load_integer,
)
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.winograd.layout import POINTS_OF_AXIS
from opserve_kernels.algorithms.winograd.transforms import Transforms
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Six = tuple[int, int, int, int, int, int]
Five = tuple[int, int, int, int, int]
Rows = list[list[Value]]
Shape = tuple[int, int]
Transform = Callable[[Sequence[Value]], list[Value]]

_QUAD = 4
_PIECES = {2: [(0, 2)], 3: [(0, 4)], 4: [(0, 4)], 5: [(0, 4), (1, 4)]}
"""First values and sizes of the pieces that a row is written in, by its columns."""


def _loading(
    shape: Shape, transform: Callable[[Transforms], Transform], *, piece: int, turned: bool = False
) -> Any:  # noqa: ANN401  # numba's
    """Returns the code of transform_*.

    Args:
        shape: Rows and columns of a tile; a single row is not transformed.
        transform: The transform along one dimension.
        piece: Lanes that are stored contiguously.
        turned: Whether rows and columns are taken from the last to the first.
    """
    (rows, columns), step = shape, -1 if turned else 1

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        source, offsets, row_pitch, target, plane_pitch, piece_pitch = numbers
        places = _lane_places(builder, memory, source, offsets)
        # First down the columns, on vectors as they are loaded: four values of a row, of LANES / 4
        # lanes. Then the vectors are transposed, so that each has one value of every lane, and the
        # rows follow.
        along = transform(Transforms(builder, LANES))
        transformed: Rows = []  # by column: points of the rows
        for first in range(0, columns, _QUAD):
            at = min(first, max(0, columns - _QUAD))  # a full quad, which may repeat columns
            quads = _load_quads(builder, places, row_pitch, (rows, at))[::step]
            down = [_unless_single(along, [row[q] for row in quads]) for q in range(_QUAD)]
            across = [_transpose(builder, quad) for quad in zip(*down, strict=True)]
            for column in range(first, min(first + _QUAD, columns)):
                transformed.append([vectors[column - at] for vectors in across])
        # Points of the rows, then of the columns: xi counts both, row by row.
        for xi, row in enumerate(zip(*transformed[::step], strict=True)):
            for other, value in enumerate(along(row)):
                plane = builder.mul(plane_pitch, integer(xi * POINTS_OF_AXIS + other))
                place = builder.add(target, plane)
                _store_pieces(builder, memory, value, (place, piece, piece_pitch))

    return function(emit)


def _collecting(shape: Shape) -> Any:  # noqa: ANN401  # numba's
    """Returns the code of collect_*, for tiles of so many rows and columns."""
    rows, columns = shape

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        source, plane_pitch, target, offsets, row_pitch = numbers
        lanes, transforms = Vectors(builder, LANES), Transforms(builder, LANES)

        def load(xi: int) -> Value:
            plane = builder.mul(plane_pitch, integer(xi))
            return lanes.load(ahead(builder, memory, builder.add(source, plane)))

        # Down the columns of points first, then along the rows: the reverse of _loading.
        points = range(0, POINTS_OF_AXIS**2 if rows > 1 else 1, POINTS_OF_AXIS)
        down = [
            _unless_single(
                lambda products: transforms.results(products, rows), [load(xi + x) for xi in points]
            )
            for x in range(POINTS_OF_AXIS)
        ]
        places = _lane_places(builder, memory, target, offsets)
        found = [transforms.results(row, columns) for row in zip(*down, strict=True)]
        # Back from vectors of one value of every lane to rows of each lane. 3 columns are one piece
        # of four, whose last value the next row overwrites; 5 columns are two overlapping pieces.
        for first, count in _PIECES[columns]:
            quads = [
                _transpose(builder, [values[(first + q) % columns] for q in range(_QUAD)])
                for values in found
            ]
            for lane, place in enumerate(places):
                for row, vectors in enumerate(quads):
                    part = _part(builder, vectors[lane % _QUAD], lane // _QUAD * _QUAD, count)
                    at = builder.add(builder.mul(row_pitch, integer(row)), integer(first))
                    Vectors(builder, count).store(part, ahead(builder, place, at))

    return function(emit)


def _unless_single(transform: Transform, values: Sequence[Value]) -> list[Value]:
    """The transformed values; a single value has nothing to transform along this dimension."""
    return transform(values) if len(values) > 1 else list(values)


def _lane_places(builder: Value, memory: Value, start: Value, offsets: Value) -> list[Value]:
    places: list[Value] = []
    for lane in range(LANES):
        offset = load_integer(builder, memory, builder.add(offsets, integer(lane)))
        places.append(ahead(builder, memory, builder.add(start, offset)))
    return places


def _load_quads(
    builder: Value, places: Sequence[Value], row_pitch: Value, shape: tuple[int, int]
) -> Rows:
    """For each row four vectors, of lanes q, q + 4, ...: the four values from a column on."""
    rows, column = shape
    loader = Vectors(builder, _QUAD)
    loaded: Rows = []
    for row in range(rows):
        at = builder.add(builder.mul(row_pitch, integer(row)), integer(column))
        # Lanes come from different places, so each contributes a vector of four values; wider loads
        # would cross into other tiles.
        quads = [loader.load(ahead(builder, place, at)) for place in places]
        loaded.append([_join(builder, quads[q::_QUAD]) for q in range(_QUAD)])
    return loaded


def _join(builder: Value, parts: Sequence[Value]) -> Value:
    """Joins a power of two of vectors into one."""
    joined = list(parts)
    while len(joined) > 1:
        joined = [
            _shuffle(builder, left, right, range(2 * left.type.count))
            for left, right in zip(joined[::2], joined[1::2], strict=True)
        ]
    return joined[0]


def _transpose(builder: Value, vectors: Sequence[Value]) -> list[Value]:
    """Value v of quad u of vector q becomes value q of quad u of vector v."""
    # Two rounds of shuffles within quads of lanes: pairs of values, then pairs of pairs. No value
    # leaves its quad, which AVX can do without crossing 128-bit halves.
    a, b, c, d = vectors
    quads = range(0, LANES, _QUAD)
    low = [quad + lane for quad in quads for lane in (0, LANES, 1, LANES + 1)]
    high = [lane + 2 for lane in low]
    halves = [quad + lane for quad in quads for lane in (0, 1, LANES, LANES + 1)]
    others = [lane + 2 for lane in halves]
    ab, cd = _shuffle(builder, a, b, low), _shuffle(builder, c, d, low)
    ab_high, cd_high = _shuffle(builder, a, b, high), _shuffle(builder, c, d, high)
    return [
        _shuffle(builder, ab, cd, halves),
        _shuffle(builder, ab, cd, others),
        _shuffle(builder, ab_high, cd_high, halves),
        _shuffle(builder, ab_high, cd_high, others),
    ]


def _part(builder: Value, vector: Value, first: int, count: int) -> Value:
    return _shuffle(builder, vector, vector, range(first, first + count))


def _store_pieces(
    builder: Value, memory: Value, value: Value, where: tuple[Value, int, Value]
) -> None:
    """Stores lanes in pieces; where is a place, the lanes of a piece and the pitch."""
    place, count, pitch = where
    for piece in range(LANES // count):
        # Left panels have TILE_ROWS channels, half a vector or less: a vector of lanes spreads over
        # several panels.
        part = value if count == LANES else _part(builder, value, piece * count, count)
        at = builder.add(place, builder.mul(pitch, integer(piece)))
        Vectors(builder, count).store(part, ahead(builder, memory, at))


def _shuffle(builder: Value, left: Value, right: Value, lanes: Sequence[int]) -> Value:
    kind = ir.VectorType(ir.IntType(32), len(lanes))
    return builder.shuffle_vector(left, right, ir.Constant(kind, list(lanes)))


def _image_of(transforms: Transforms) -> Transform:
    return transforms.image


def _kernel_of(transforms: Transforms) -> Transform:
    return transforms.kernel


_PLANE, _LINE = 9, 3  # taps of the kernels 3 x 3 and 1 x 3; the others have 5 x 5

_image = _loading((6, 6), _image_of, piece=LANES)
_image_line = _loading((1, 6), _image_of, piece=LANES)
_kernel_3x3 = _loading((3, 3), _kernel_of, piece=TILE_ROWS)
_kernel_5x5 = _loading((5, 5), _kernel_of, piece=TILE_ROWS)
_kernel_1x3 = _loading((1, 3), _kernel_of, piece=TILE_ROWS)
_turned_3x3 = _loading((3, 3), _kernel_of, piece=TILE_ROWS, turned=True)
_turned_5x5 = _loading((5, 5), _kernel_of, piece=TILE_ROWS, turned=True)
_turned_1x3 = _loading((1, 3), _kernel_of, piece=TILE_ROWS, turned=True)
_output_4x4 = _loading((4, 4), _kernel_of, piece=TILE_ROWS)
_output_2x2 = _loading((2, 2), _kernel_of, piece=TILE_ROWS)
_output_1x4 = _loading((1, 4), _kernel_of, piece=TILE_ROWS)
_results_4x4 = _collecting((4, 4))
_results_2x2 = _collecting((2, 2))
_results_1x4 = _collecting((1, 4))
_taps_3x3 = _collecting((3, 3))
_taps_5x5 = _collecting((5, 5))
_taps_1x3 = _collecting((1, 3))


@compiled("void(float32[::1], UniTuple(int64, 6), int64)")
def transform_image(memory: Floats, numbers: Six, rows: int) -> None:
    """Transforms tiles of 6 x 6 values, or 1 x 6 for one row of taps, for the right side."""
    if rows > 1:
        _image(memory, numbers)
    else:
        _image_line(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6), int64)")
def transform_kernel(memory: Floats, numbers: Six, taps: int) -> None:
    """Transforms kernels of so many taps for the left side; values behind a row are ignored."""
    if taps == _PLANE:
        _kernel_3x3(memory, numbers)
    elif taps == _LINE:
        _kernel_1x3(memory, numbers)
    else:
        _kernel_5x5(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6), int64)")
def transform_turned_kernel(memory: Floats, numbers: Six, taps: int) -> None:
    """The same, turned by 180 degrees."""
    if taps == _PLANE:
        _turned_3x3(memory, numbers)
    elif taps == _LINE:
        _turned_1x3(memory, numbers)
    else:
        _turned_5x5(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6), int64)")
def transform_output(memory: Floats, numbers: Six, taps: int) -> None:
    """Transforms tiles of an output, in the place of a kernel, for the left side."""
    if taps == _PLANE:
        _output_4x4(memory, numbers)
    elif taps == _LINE:
        _output_1x4(memory, numbers)
    else:
        _output_2x2(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 5), int64)")
def collect_results(memory: Floats, numbers: Five, taps: int) -> None:
    """Writes tiles of results of so many taps."""
    if taps == _PLANE:
        _results_4x4(memory, numbers)
    elif taps == _LINE:
        _results_1x4(memory, numbers)
    else:
        _results_2x2(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 5), int64)")
def collect_taps(memory: Floats, numbers: Five, taps: int) -> None:
    """Writes kernels, lane by lane; the next lane overwrites what a row of 3 columns exceeds."""
    if taps == _PLANE:
        _taps_3x3(memory, numbers)
    elif taps == _LINE:
        _taps_1x3(memory, numbers)
    else:
        _taps_5x5(memory, numbers)
