"""Generate micro-kernels: products of small matrices whose sums stay in registers.

    packed, flat   total[m, n] = sum over k of left[k, m] * right[k, n]    lanes are columns n
    dots           total[n, m] = sum over i of right[n, i] * left[m, i]    lanes are positions i

Each is a function that numba compiles into its caller. It takes one memory for all operands and a
tuple of integers: counts, and places counted in float32 values from the start of that memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    function_of_four,
    function_of_two,
    integer,
    load_integer,
    loop,
    prefetch,
)

Adding = Callable[[Vectors, Value, Value, Value], Value]

_LINE = 16  # float32 values of a cache line
_UNROLLED = 4  # rounds of the packed and flat forms between two branches


def packed_tile(
    rows: int,
    vectors: int,
    *,
    width: int,
    pitches: tuple[int, int],
    add: Adding = Vectors.multiply_add,
) -> Any:  # noqa: ANN401  # numba's
    """memory, (depth, left, right, total, pitch, adds): total (= | +=) left^T @ right.

    Args:
        rows: m.
        vectors: n, in vectors.
        width: Lanes of a vector.
        pitches: Elements between two rows of left, and of right.
        add: The sum of left * right and a total.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        depth, left, right, total, pitch, adds = numbers
        tile = _Tile(builder, memory, (rows, vectors, width, pitches[0]), add)
        line = tile.line(right, pitches[1])
        sums = tile.sums(depth, tile.panel(left), line)
        tile.finish(sums, tile.places(total, pitch), adds)

    return function(emit)


def in_place_tile(
    rows: int, vectors: int, *, width: int, add: Adding = Vectors.multiply_add
) -> Any:  # noqa: ANN401  # numba's
    """As packed, of three arrays: factors, values and totals; and memory that has a bias.

    The numbers are depth; left, left_pitch, left_step; right, right_pitch; total, pitch, adds;
    bias; and the rows that have totals. Factor left[k, m] is
    factors[left + m * left_pitch + k * left_step]. With a bias, row m is set to its sums plus
    memory[bias + m].

    Args:
        rows: m.
        vectors: n, in vectors.
        width: Lanes of a vector.
        add: The sum of left * right and a total.
    """

    def emit(builder: Value, places: Sequence[Value], numbers: Sequence[Value]) -> None:
        depth, left, left_pitch, left_step, right, right_pitch = numbers[:6]
        total, pitch, adds, bias, exist = numbers[6:]
        factors, values, totals, memory = places
        starts = [
            ahead(builder, factors, builder.add(left, _times(builder, left_pitch, row)))
            for row in range(rows)
        ]

        def factors_of(k: Value) -> list[Value]:
            at = builder.mul(k, left_step)
            return [ahead(builder, start, at) for start in starts]

        def line(k: Value) -> Value:
            return builder.add(right, builder.mul(k, right_pitch))

        tile = _Tile(builder, values, (rows, vectors, width, 0), add)
        sums = tile.sums(depth, factors_of, line)
        biased = builder.icmp_signed(">=", bias, integer(0))
        for row in range(rows):
            some = sums[row * vectors : (row + 1) * vectors]
            first = ahead(builder, totals, builder.add(total, _times(builder, pitch, row)))
            exists = builder.icmp_signed("<", integer(row), exist)
            with builder.if_then(exists), builder.if_else(biased) as (with_bias, without):
                with with_bias:
                    place = ahead(builder, memory, builder.add(bias, integer(row)))
                    tile.store(tile.increased(some, place), first)
                with without:
                    tile.finish(some, [first], adds)

    return function_of_four(emit)


def flat_tile(
    rows: int, vectors: int, *, width: int, pitch: int, add: Adding = Vectors.multiply_add
) -> Any:  # noqa: ANN401  # numba's
    """memory, (depth, left, right, offsets, total, pitch, adds): as packed, with rows at any place.

    Row k of right starts offsets[k] after right; the offsets are int32 in the same memory.

    Args:
        rows: m.
        vectors: n, in vectors.
        width: Lanes of a vector.
        pitch: Elements between two rows of left.
        add: The sum of left * right and a total.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        depth, left, right, offsets, total, total_pitch, adds = numbers

        def line(k: Value) -> Value:
            return builder.add(right, load_integer(builder, memory, builder.add(offsets, k)))

        tile = _Tile(builder, memory, (rows, vectors, width, pitch), add)
        sums = tile.sums(depth, tile.panel(left), line)
        tile.finish(sums, tile.places(total, total_pitch), adds)

    return function(emit)


def panel_row_tile(vectors: int, *, width: int) -> Any:  # noqa: ANN401  # numba's
    """(read, written), (source, target): copies a row of a panel, prefetches behind it.

    Args:
        vectors: Vectors of a row.
        width: Lanes of a vector.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        lanes = Vectors(builder, width)
        source, target = ahead(builder, read, numbers[0]), ahead(builder, written, numbers[1])
        for lane in range(0, vectors * width, width):
            value = lanes.load(ahead(builder, source, integer(lane)))
            lanes.store(value, ahead(builder, target, integer(lane)))
        # The next panel reads, at each offset, the values behind this row. One row of a panel is
        # one of up to 256 places that are read in turn, so a prefetch names the next line of each.
        for lane in range(0, vectors * width, _LINE):
            prefetch(builder, ahead(builder, source, integer(vectors * width + lane)))

    return function_of_two(emit)


def dots_tile(rows: int, columns: int, *, width: int, pitch: int) -> Any:  # noqa: ANN401  # numba's
    """memory, (count, left, left_pitch, right, offsets, total): total += right @ left^T.

    Row n of right starts offsets[n] after right, as for flat_tile; rows of left are left_pitch
    apart. Both have `count` positions, a multiple of the width.

    Args:
        rows: m, a power of two and at most the width.
        columns: n.
        width: Lanes of a vector.
        pitch: Elements between two rows (n) of total.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        count, left, left_pitch, right, offsets, total = numbers
        lanes = Vectors(builder, width)
        left_rows = [
            ahead(builder, memory, builder.add(left, _times(builder, left_pitch, row)))
            for row in range(rows)
        ]
        offset = [
            load_integer(builder, memory, builder.add(offsets, integer(column)))
            for column in range(columns)
        ]
        right_rows = [ahead(builder, memory, builder.add(right, at)) for at in offset]

        # In registers: rows x columns sums, one vector of each row of right, and one vector of
        # left. Each vector of right serves all rows, each vector of left all columns.
        def add_products(i: Value, sums: Sequence[Value]) -> list[Value]:
            values = [lanes.load(ahead(builder, row, i)) for row in right_rows]
            after: list[Value] = []
            for row, left_row in enumerate(left_rows):
                factor = lanes.load(ahead(builder, left_row, i))
                for column, value in enumerate(values):
                    after.append(lanes.multiply_add(factor, value, sums[row * columns + column]))
            return after

        zeros = [lanes.zero()] * (rows * columns)
        _, sums = loop(builder, (integer(0), count, width), zeros, add_products)
        # Lanes are added up once, behind the loop: `sums` folds the vectors of one column together,
        # and its result has the sums of all rows side by side, as the panel of totals has them.
        for column in range(columns):
            found = lanes.sums(sums[column::columns])
            place = ahead(builder, memory, builder.add(total, integer(column * pitch)))
            lanes.store(lanes.add(lanes.load_as(place, found), found), place)

    return function(emit)


class _Tile:
    """A tile of sums under construction; shape is rows, vectors, width and left's pitch."""

    def __init__(
        self, builder: Value, memory: Value, shape: tuple[int, int, int, int], add: Adding
    ) -> None:
        self._builder = builder
        self._memory = memory
        self._rows, self._vectors, self._width, self._pitch = shape
        self._lanes = Vectors(builder, self._width)
        self._add = add

    def panel(self, left: Value) -> Callable[[Value], list[Value]]:
        """The factors of each k, for `sums`, of a panel of left."""

        def factors(k: Value) -> list[Value]:
            start = self._builder.add(left, _times(self._builder, k, self._pitch))
            return [self._at(start, row) for row in range(self._rows)]

        return factors

    def line(self, right: Value, pitch: int) -> Callable[[Value], Value]:
        """The start of each row k of right, for `sums`, where rows are a pitch apart."""
        return lambda k: self._builder.add(right, _times(self._builder, k, pitch))

    def sums(
        self,
        depth: Value,
        left: Callable[[Value], list[Value]],
        line: Callable[[Value], Value],
    ) -> list[Value]:
        """The sums over k < depth, with factors left(k); row k of right starts at line(k)."""

        # Four steps between two branches: with AVX2 a tile of 4 rows x 24 columns, unrolled by
        # four, was measured at 97 % of the FMA peak.
        def several(k: Value, sums: Sequence[Value]) -> Sequence[Value]:
            for round_ in range(_UNROLLED):
                sums = once(self._builder.add(k, integer(round_)), sums)
            return sums

        def once(k: Value, sums: Sequence[Value]) -> Sequence[Value]:
            return self._products(left(k), line(k), sums)

        zeros = [self._lanes.zero()] * (self._rows * self._vectors)
        k, sums = loop(self._builder, (integer(0), depth, _UNROLLED), zeros, several)
        _, sums = loop(self._builder, (k, depth, 1), sums, once)
        return sums

    def _products(
        self, factors: Sequence[Value], line: Value, sums: Sequence[Value]
    ) -> list[Value]:
        # In registers: rows x vectors sums, the vectors of one row of right, and one factor of left
        # in all lanes. A row of right is loaded once for all rows of the tile, a factor once for
        # all vectors.
        columns = [
            self._lanes.load(self._at(line, vector * self._width))
            for vector in range(self._vectors)
        ]
        after: list[Value] = []
        for place in factors:
            factor = self._lanes.broadcast(place)
            for column in columns:
                after.append(self._add(self._lanes, factor, column, sums[len(after)]))
        return after

    def places(self, total: Value, pitch: Value) -> list[Value]:
        """Places of the first total of each row in memory."""
        rows = (_times(self._builder, pitch, row) for row in range(self._rows))
        return [ahead(self._builder, self._memory, self._builder.add(total, row)) for row in rows]

    def increased(self, sums: Sequence[Value], place: Value) -> list[Value]:
        """The sums plus one value of memory."""
        value = self._lanes.broadcast(place)
        return [self._lanes.add(value, one) for one in sums]

    def finish(self, sums: Sequence[Value], rows: Sequence[Value], adds: Value) -> None:
        """Stores the sums, or adds them to totals in memory: rows that begin at these places."""
        # A branch, not a product with `adds`: totals that are set may hold anything before, also
        # NaN.
        condition = self._builder.icmp_signed("!=", adds, integer(0))
        with self._builder.if_else(condition) as (adding, setting):
            with adding:
                before = [self._lanes.load(place) for place in self._columns(rows)]
                added = [self._lanes.add(*pair) for pair in zip(before, sums, strict=True)]
                self.store(added, *rows)
            with setting:
                self.store(sums, *rows)

    def store(self, sums: Sequence[Value], *rows: Value) -> None:
        """Stores sums in rows that begin at these places."""
        for value, place in zip(sums, self._columns(rows), strict=True):
            self._lanes.store(value, place)

    def _columns(self, rows: Sequence[Value]) -> list[Value]:
        columns = range(0, self._vectors * self._width, self._width)
        return [ahead(self._builder, row, integer(at)) for row in rows for at in columns]

    def _at(self, place: Value, distance: int) -> Value:
        return ahead(self._builder, self._memory, self._builder.add(place, integer(distance)))


def _times(builder: Value, value: Value, factor: int) -> Value:
    return builder.mul(value, integer(factor))
