"""Generate the depthwise plane kernels: shifted planes, read in their tensors, without a copy.

A kernel takes a strip of planes, as many columns as a vector has lanes, and goes down its rows.
Masks exclude lanes beyond a row from loads and stores: a shift reads zeros there. The stride is
that of the convolution, 1 or 2; with 2 the image's even and odd columns are in different vectors.

Both take three arrays, of planes A, of weights or totals and of planes B, and a Strip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function_of_three,
    integer,
    loop,
    prefetch,
)
from opserve_kernels.algorithms.depthwise.layout import Strip


# In registers: every weight in all lanes of its own vector, the sums of the rows of the target that
# later rows of the source still add to, and the totals of one row of the source. A row of the
# source is loaded once for each shift, a row of the target is stored once.
# Sums roll down: a row of the source adds to `taps` rows of the target, of which the first `stride`
# are complete and leave.
# Behind the last row of the source, the sums that are left are stored without additions.
def weigh_strip_tile(taps: int, *, stride: int, width: int) -> Any:  # noqa: ANN401  # numba's
    """A = source, weights, B = target.

    target[p, q] = bias + sum over i, j < taps of
        weights[i, j] * source[(p + up - i) / stride, (q + before - j) / stride], where both divide

    The strip's columns u are those of the source, moved: of the targets u * stride - before and on.

    Args:
        taps: Rows and columns of the weights, at least the stride.
        stride: Rows and columns of the target for one of the source.
        width: Lanes of a vector.
    """

    def emit(builder: Value, arrays: Sequence[Value], numbers: Sequence[Value]) -> None:
        strip, lanes = Strip(*numbers), Vectors(builder, width)
        shifts = [builder.sub(strip.column, integer(shift)) for shift in range(-(-taps // stride))]
        source = _Rows.of_first(lanes, arrays[0], strip, shifts)
        parts = _in_image(builder, strip, stride, [part * width for part in range(stride)])
        target = _Rows.of_second(lanes, arrays[2], strip, parts, side_by_side=stride)
        factors = _broadcast(lanes, ahead(builder, arrays[1], strip.values), taps * taps)
        bias = lanes.broadcast(ahead(builder, arrays[1], strip.bias))
        stop = _quotient_up(builder, builder.add(target.rows, strip.up), stride)

        def plane(number: Value, state: Sequence[Value]) -> Sequence[Value]:
            read, written = source.plane(number), target.plane(number)

            def keep(row: Value, totals: Sequence[Value]) -> Sequence[Value]:
                """Stores the complete rows of the target; returns the sums of the others."""
                above = builder.sub(builder.mul(row, integer(stride)), strip.up)
                for at in range(stride):
                    values = _joined(lanes, totals[at * stride : (at + 1) * stride], bias)
                    target.store(written, builder.add(above, integer(at)), values)
                return totals[stride * stride :]

            def add_row(row: Value, sums: Sequence[Value]) -> Sequence[Value]:
                totals = _weighted(lanes, factors, source.load(read, row), (taps, stride))
                so_far = zip(sums, totals[: len(sums)], strict=True)
                return keep(row, [lanes.add(*pair) for pair in so_far] + totals[len(sums) :])

            def end_row(row: Value, sums: Sequence[Value]) -> Sequence[Value]:
                return keep(row, [*sums, *[lanes.zero()] * stride * stride])

            zeros = [lanes.zero()] * ((taps - stride) * stride)
            met = (integer(0), _least(builder, stop, source.rows), 1)
            row, sums = loop(builder, met, zeros, add_row)
            loop(builder, (row, stop, 1), sums, end_row)
            return state

        loop(builder, (integer(0), strip.planes, 1), [], plane)

    return function_of_three(emit)


def compare_strip_tile(taps: int, *, stride: int, width: int) -> Any:  # noqa: ANN401  # numba's
    """A = left, totals, B = source.

    totals[i, j] += sum over r and the strip's c of
        left[r, c] * source[r * stride + i - up, c * stride + j - before]

    Args:
        taps: Rows and columns of the totals.
        stride: Rows and columns of the source for one of left.
        width: Lanes of a vector.
    """
    shifts = range(-(-taps // stride))

    def emit(builder: Value, arrays: Sequence[Value], numbers: Sequence[Value]) -> None:
        # In registers: the taps x taps totals, and the last rows of left. A row of the source is
        # loaded once and multiplied with each row of left that it meets.
        strip, lanes = Strip(*numbers), Vectors(builder, width)
        up, column = strip.up, strip.column
        left = _Rows.of_first(lanes, arrays[0], strip, [column])
        further = [shift * stride + part * width for shift in shifts for part in range(stride)]
        parts = _in_image(builder, strip, stride, further)
        source = _Rows.of_second(lanes, arrays[2], strip, parts, side_by_side=stride)
        start, stop = _meeting_rows(left, source, up, stride, shifts[-1])

        def plane(number: Value, state: Sequence[Value]) -> Sequence[Value]:
            of_left, of_source = left.plane(number), source.plane(number)

            def add_rows(row: Value, carried: Sequence[Value]) -> list[Value]:
                sums, rows = list(carried[: taps * taps]), list(carried[taps * taps :])
                rows = left.load_if_any(of_left, row) + rows
                for phase in range(stride):
                    at = builder.sub(
                        builder.add(builder.mul(row, integer(stride)), integer(phase)), up
                    )
                    values = _under_taps(lanes, source.load_if_any(of_source, at), stride)
                    _add_products(lanes, sums, rows, values[:taps], range(phase, taps, stride))
                return sums + rows[:-1]

            # Rows above the first one: zeros where left has none, so that the loop needs no first
            # round of its own.
            above = [builder.sub(start, integer(shift)) for shift in shifts[1:]]
            rows_above = [value for row in above for value in left.load_if_any(of_left, row)]
            _, after = loop(builder, (start, stop, 1), [*state, *rows_above], add_rows)
            return after[: taps * taps]

        zeros = [lanes.zero()] * (taps * taps)
        _, sums = loop(builder, (integer(0), strip.planes, 1), zeros, plane)
        _add_lanes(lanes, ahead(builder, arrays[1], strip.values), sums)

    return function_of_three(emit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The vectors of each row of some planes.

    Attributes:
        lanes: Emitter of the code.
        start: The first plane.
        step: Distance of two planes.
        rows: Rows of a plane.
        columns: Columns of a row.
        places: First columns of the vectors.
        masks: The lanes of each vector that a row has.
        following: Distance from a plane to the plane to prefetch.
        side_by_side: Number of leading places that cover all columns of the strip.
    """

    lanes: Vectors
    start: Value
    step: Value
    rows: Value
    columns: Value
    places: Sequence[Value]
    masks: Sequence[Value]
    following: Value
    side_by_side: int

    @staticmethod
    def of_first(
        lanes: Vectors, array: Value, strip: Strip[Value], places: Sequence[Value]
    ) -> "_Rows":
        """The rows of planes A."""
        return _Rows(
            lanes=lanes,
            start=ahead(lanes.builder, array, strip.first),
            step=strip.first_step,
            rows=strip.first_rows,
            columns=strip.first_columns,
            places=places,
            masks=[lanes.within(place, strip.first_columns) for place in places],
            following=strip.first_following,
            side_by_side=1,
        )

    @staticmethod
    def of_second(
        lanes: Vectors,
        array: Value,
        strip: Strip[Value],
        places: Sequence[Value],
        *,
        side_by_side: int,
    ) -> "_Rows":
        """The rows of planes B."""
        return _Rows(
            lanes=lanes,
            start=ahead(lanes.builder, array, strip.second),
            step=strip.second_step,
            rows=strip.second_rows,
            columns=strip.second_columns,
            places=places,
            masks=[lanes.within(place, strip.second_columns) for place in places],
            following=strip.second_following,
            side_by_side=side_by_side,
        )

    def plane(self, number: Value) -> Value:
        """Start of a plane."""
        return ahead(self.lanes.builder, self.start, self.lanes.builder.mul(number, self.step))

    def load(self, plane: Value, row: Value) -> list[Value]:
        """Loads a row that the plane has."""
        places = self._places(plane, row)
        self._fetch(places)
        pairs = zip(places, self.masks, strict=True)
        return [self.lanes.load_masked(place, mask) for place, mask in pairs]

    def load_if_any(self, plane: Value, row: Value) -> list[Value]:
        """Loads a row, or zeros if the plane has no row of that number."""
        places, exists = self._places(plane, row), self._has(row)
        self._fetch(places)
        masks = [self.lanes.only_if(exists, mask) for mask in self.masks]
        pairs = zip(places, masks, strict=True)
        return [self.lanes.load_masked(place, mask) for place, mask in pairs]

    def store(self, plane: Value, row: Value, values: Sequence[Value]) -> None:
        """Stores a row, unless the plane has no row of that number."""
        with self.lanes.builder.if_then(self._has(row)):
            places = self._places(plane, row)
            for place, value, mask in zip(places, values, self.masks, strict=True):
                self.lanes.store_masked(value, place, mask)
            self._fetch(places)

    def _has(self, row: Value) -> Value:
        # Unsigned: also false for rows above the first one, whose numbers are negative.
        return self.lanes.builder.icmp_unsigned("<", row, self.rows)

    def _places(self, plane: Value, row: Value) -> list[Value]:
        builder = self.lanes.builder
        start = builder.mul(row, self.columns)
        return [ahead(builder, plane, builder.add(start, place)) for place in self.places]

    def _fetch(self, places: Sequence[Value]) -> None:
        for place in places[: self.side_by_side]:
            prefetch(self.lanes.builder, ahead(self.lanes.builder, place, self.following))


def _in_image(
    builder: Value, strip: Strip[Value], stride: int, further: Sequence[int]
) -> list[Value]:
    """Columns of the image: the one under a strip's first tap, and some behind it."""
    first = builder.sub(builder.mul(strip.column, integer(stride)), strip.before)
    return [builder.add(first, integer(distance)) for distance in further]


def _meeting_rows(
    left: _Rows, source: _Rows, up: Value, stride: int, later: int
) -> tuple[Value, Value]:
    """Bounds of the rows of left, and `later` behind each, that meet rows of the source."""
    builder = left.lanes.builder
    met = _quotient_up(builder, builder.add(source.rows, up), stride)
    stop = _least(builder, builder.add(left.rows, integer(later)), met)
    return builder.udiv(up, integer(stride)), stop


def _under_taps(lanes: Vectors, loaded: Sequence[Value], stride: int) -> list[Value]:
    """The vectors of a row of the source that neighbouring taps meet."""
    pairs = [loaded[at : at + stride] for at in range(0, len(loaded), stride)]
    return [value for pair in pairs for value in _split(lanes, pair)]


def _split(lanes: Vectors, parts: Sequence[Value]) -> Sequence[Value]:
    """Splits consecutive vectors, as many as the stride, into phases."""
    return parts if len(parts) == 1 else lanes.split(*parts)


def _joined(lanes: Vectors, phases: Sequence[Value], bias: Value) -> Sequence[Value]:
    """Adds the bias to phases, and joins them: the reverse of _split."""
    biased = [lanes.add(phase, bias) for phase in phases]
    return biased if len(biased) == 1 else lanes.joined(*biased)


def _broadcast(lanes: Vectors, place: Value, count: int) -> list[Value]:
    """Loads contiguous values, each into all lanes of its own vector."""
    places = [ahead(lanes.builder, place, integer(number)) for number in range(count)]
    return [lanes.broadcast(value) for value in places]


def _weighted(
    lanes: Vectors, factors: Sequence[Value], values: Sequence[Value], geometry: tuple[int, int]
) -> list[Value]:
    """The sums that a row of the source adds to each row of the target (taps), by column phase."""
    taps, stride = geometry
    totals = [lanes.zero()] * (taps * stride)
    for tap, factor in enumerate(factors):
        at = tap // taps * stride + tap % taps % stride
        totals[at] = lanes.multiply_add(factor, values[tap % taps // stride], totals[at])
    return totals


def _add_products(
    lanes: Vectors,
    sums: list[Value],
    rows: Sequence[Value],
    values: Sequence[Value],
    taps: range,
) -> None:
    """Adds the products of rows of left and the values of a row of the source, to rows `taps`."""
    for other, row in zip(rows, taps, strict=False):
        for tap, value in enumerate(values):
            at = row * len(values) + tap
            sums[at] = lanes.multiply_add(other, value, sums[at])


def _add_lanes(lanes: Vectors, place: Value, vectors: Sequence[Value]) -> None:
    """Adds the sum of each vector's lanes to contiguous values."""
    while vectors:
        # `sums` folds a power of two of vectors at once: with 16 lanes 9 totals are 8 and 1, 25 are
        # 16, 8 and 1.
        count = min(lanes.width, 1 << (len(vectors).bit_length() - 1))
        folded = lanes.sums(vectors[:count])
        lanes.store(lanes.add(lanes.load_as(place, folded), folded), place)
        vectors, place = vectors[count:], ahead(lanes.builder, place, integer(count))


def _quotient_up(builder: Value, value: Value, divisor: int) -> Value:
    """Quotient, rounded up, of a value that is not negative."""
    return builder.udiv(builder.add(value, integer(divisor - 1)), integer(divisor))


def _least(builder: Value, left: Value, right: Value) -> Value:
    return builder.select(builder.icmp_signed("<", left, right), left, right)
