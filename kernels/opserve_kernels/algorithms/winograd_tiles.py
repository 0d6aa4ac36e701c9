"""Tiles in and out of Winograd's transforms: as many at a time as a vector has lanes.

What a lane is, a table of offsets says: a tile of one channel, or the same tile of a channel each.
Four values of a row at a time are loaded for every lane and transposed, four lanes by four values:

    lanes 0 4    a0 a1 a2 a3 | e0 e1 e2 e3        a0 b0 c0 d0 | e0 f0 g0 h0    value 0
    lanes 1 5    b0 b1 b2 b3 | f0 f1 f2 f3   ->   a1 b1 c1 d1 | e1 f1 g1 h1    value 1
    lanes 2 6    c0 c1 c2 c3 | g0 g1 g2 g3        a2 b2 c2 d2 | e2 f2 g2 h2    value 2
    lanes 3 7    d0 d1 d2 d3 | h0 h1 h2 h3        a3 b3 c3 d3 | e3 f3 g3 h3    value 3

Down the columns, values are transformed before they are transposed; along the rows, after.

All take the memory that everything lies in and a tuple of integers, places counted in float32:

    transform_*   (source, offsets, row_pitch, target, plane_pitch, piece_pitch)
        Lane l reads a tile at source + table[offsets + l], whose rows are row_pitch apart. Point xi
        of all lanes goes to target + xi * plane_pitch; those for panels of the left side of a
        product in pieces of TILE_ROWS lanes, piece_pitch apart.
    collect_*     (source, plane_pitch, target, offsets, row_pitch)
        The reverse: lane l writes its tile to target + table[offsets + l].
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    integer,
    load_integer,
)
from opserve_kernels.algorithms.winograd_layout import POINTS, RESULTS, TAPS
from opserve_kernels.algorithms.winograd_transforms import Transforms
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Six = tuple[int, int, int, int, int, int]
Five = tuple[int, int, int, int, int]
Rows = list[list[Value]]
_QUAD = 4


def _loading(
    size: int, transform: Callable[[Transforms], Any], *, piece: int, turned: bool = False
) -> Any:  # noqa: ANN401  # numba's
    """The code of transform_*.

    Args:
        size: Rows and columns of a tile.
        transform: Along one dimension.
        piece: Lanes that are stored side by side.
        turned: Whether rows and columns are taken from the last to the first.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        source, offsets, row_pitch, target, plane_pitch, piece_pitch = numbers
        places = _lane_places(builder, memory, source, offsets)
        transformed = transform(Transforms(builder, LANES))
        order = range(size - 1, -1, -1) if turned else range(size)
        columns: list[Rows] = []
        for first in range(0, size, _QUAD):
            at = min(first, max(0, size - _QUAD))  # a full quad, which may repeat columns
            quads = _load_quads(builder, places, row_pitch, (size, at))
            down = [transformed([quads[row][q] for row in order]) for q in range(_QUAD)]
            across = [
                _transpose(builder, [down[q][xi] for q in range(_QUAD)]) for xi in range(POINTS)
            ]
            columns += [
                [across[xi][column - at] for xi in range(POINTS)]
                for column in range(first, min(first + _QUAD, size))
            ]
        for xi in range(POINTS):
            for other, value in enumerate(transformed([columns[c][xi] for c in order])):
                plane = builder.mul(plane_pitch, integer(xi * POINTS + other))
                place = builder.add(target, plane)
                _store_pieces(builder, memory, value, (place, piece, piece_pitch))

    return function(emit)


def _collecting(size: int, transform: Callable[[Transforms], Any]) -> Any:  # noqa: ANN401  # numba's
    """The code of collect_*, for tiles of size rows; every row is written four values wide."""

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        source, plane_pitch, target, offsets, row_pitch = numbers
        lanes, transformed = Vectors(builder, LANES), transform(Transforms(builder, LANES))

        def load(xi: int) -> Value:
            plane = builder.mul(plane_pitch, integer(xi))
            return lanes.load(ahead(builder, memory, builder.add(source, plane)))

        down = [
            transformed([load(xi * POINTS + other) for xi in range(POINTS)])
            for other in range(POINTS)
        ]
        rows: Rows = []
        for row in range(size):
            values = transformed([down[other][row] for other in range(POINTS)])
            rows.append(_transpose(builder, [*values, *values[: _QUAD - size]]))
        for lane, place in enumerate(_lane_places(builder, memory, target, offsets)):
            for row in range(size):
                quad = _part(builder, rows[row][lane % _QUAD], lane // _QUAD * _QUAD, _QUAD)
                row_place = ahead(builder, place, builder.mul(row_pitch, integer(row)))
                lanes.store(quad, row_place)

    return function(emit)


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
        quads = [loader.load(ahead(builder, place, at)) for place in places]
        loaded.append([_join(builder, quads[q::_QUAD]) for q in range(_QUAD)])
    return loaded


def _join(builder: Value, parts: Sequence[Value]) -> Value:
    """One vector of a power of two of them."""
    joined = list(parts)
    while len(joined) > 1:
        joined = [
            _shuffle(builder, left, right, range(2 * left.type.count))
            for left, right in zip(joined[::2], joined[1::2], strict=True)
        ]
    return joined[0]


def _transpose(builder: Value, vectors: Sequence[Value]) -> list[Value]:
    """Value v of quad u of vector q becomes value q of quad u of vector v."""
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
        part = value if count == LANES else _part(builder, value, piece * count, count)
        at = builder.add(place, builder.mul(pitch, integer(piece)))
        Vectors(builder, count).store(part, ahead(builder, memory, at))


def _shuffle(builder: Value, left: Value, right: Value, lanes: Sequence[int]) -> Value:
    kind = ir.VectorType(ir.IntType(32), len(lanes))
    return builder.shuffle_vector(left, right, ir.Constant(kind, list(lanes)))


_image = _loading(POINTS, lambda transforms: transforms.image, piece=LANES)
_kernel = _loading(TAPS, lambda transforms: transforms.kernel, piece=TILE_ROWS)
_turned_kernel = _loading(TAPS, lambda transforms: transforms.kernel, piece=TILE_ROWS, turned=True)
_output = _loading(RESULTS, lambda transforms: transforms.kernel, piece=TILE_ROWS)
_results = _collecting(RESULTS, lambda transforms: transforms.results)
_taps = _collecting(TAPS, lambda transforms: transforms.taps)


@compiled("void(float32[::1], UniTuple(int64, 6))")
def transform_image(memory: Floats, numbers: Six) -> None:
    """Tiles of 6 x 6 values, for panels of the right side."""
    _image(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6))")
def transform_kernel(memory: Floats, numbers: Six) -> None:
    """Kernels of 3 x 3 taps, for panels of the left side; the fourth value of a row is ignored."""
    _kernel(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6))")
def transform_turned_kernel(memory: Floats, numbers: Six) -> None:
    """The same, turned by 180 degrees."""
    _turned_kernel(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 6))")
def transform_output(memory: Floats, numbers: Six) -> None:
    """Tiles of 4 x 4 values in the part of a kernel, for panels of the left side."""
    _output(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 5))")
def collect_results(memory: Floats, numbers: Five) -> None:
    """Tiles of 4 x 4 results."""
    _results(memory, numbers)


@compiled("void(float32[::1], UniTuple(int64, 5))")
def collect_taps(memory: Floats, numbers: Five) -> None:
    """Kernels of 3 x 3; lanes go in order, each a value too wide: the next one overwrites it."""
    _taps(memory, numbers)
