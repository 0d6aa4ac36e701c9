"""Generate row kernels: rows of planes copied, added, split and joined in vectors.

The functions take the array to read, the array to write and a tuple of integers: the start of the
rows that are read, the distances between their planes and rows, and the same for the rows that are
written; then the numbers of planes, of rows in a plane, and of values in a row. No value beyond the
rows is read or written: a row's last vector begins so early that it ends with the row, and a
row that is shorter than a vector takes narrower ones.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function_of_two,
    integer,
    loop,
    prefetch,
    size_bytes_of,
)

_UNROLLED = 4  # values that are copied one by one between two branches
_COUNT = 8  # the place of the last of the numbers that all take
Body = Callable[[Value, int], None]
"""Emits the work on this many values, from a given index."""


def copy_rows_tile(width: int, *, exact: bool = False) -> Any:  # noqa: ANN401  # numba's
    """Numbers: target = source; a -0 becomes 0 unless the copy is exact."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        def row(source: Value, target: Value) -> None:
            def body(i: Value, lanes: int) -> None:
                vectors = _vectors(builder, lanes, read, exact=exact)
                value = vectors.load(ahead(builder, source, i))
                vectors.store(_kept(vectors, value, exact=exact), ahead(builder, target, i))

            _cover(builder, numbers[_COUNT], _lanes(width, read), body)

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def add_rows_tile(width: int) -> Any:  # noqa: ANN401  # numba's
    """Numbers, distance: target += source, while memory `distance` ahead of the source is fetched.

    Zero is added to fewer than `width` values behind each row of the target.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        count, distance = numbers[_COUNT:]
        lanes = Vectors(builder, width)

        def row(source: Value, target: Value) -> None:
            def add(i: Value, load: Callable[[Value], Value]) -> None:
                from_, to = ahead(builder, source, i), ahead(builder, target, i)
                prefetch(builder, ahead(builder, from_, distance))
                lanes.store(lanes.add(lanes.load(to), load(from_)), to)

            # An addition must not repeat a value, so the last vector does not overlap the one
            # before it. Its load is masked; its store is whole and adds zeros behind the row of
            # sums.
            i = _repeat(builder, (integer(0), count), width, lambda i, _: add(i, lanes.load))
            with builder.if_then(builder.icmp_signed("<", i, count)):
                mask = lanes.within(i, count)
                add(i, lambda place: lanes.load_masked(place, mask))

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def step_rows_tile(*, exact: bool = False) -> Any:  # noqa: ANN401  # numba's
    """Numbers, source_step, target_step: target[i * target_step] = source[i * source_step].

    A -0 becomes 0 unless the copy is exact.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        steps = numbers[_COUNT + 1 :]
        scalars = _vectors(builder, 1, read, exact=exact)

        def row(source: Value, target: Value) -> None:
            def body(i: Value, lanes: int) -> None:
                for lane in range(lanes):
                    place = builder.add(i, integer(lane))
                    from_, to = (builder.mul(place, step) for step in steps)
                    value = scalars.load(ahead(builder, source, from_))
                    scalars.store(_kept(scalars, value, exact=exact), ahead(builder, target, to))

            _cover_once(builder, numbers[_COUNT], _UNROLLED, body)

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def take_rows_tile(width: int) -> Any:  # noqa: ANN401  # numba's
    """Numbers, source_step: target[i] = source[i * source_step], every bit kept."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        step = numbers[_COUNT + 1]
        steps = [builder.mul(integer(lane), step) for lane in range(_lanes(width, read))]

        def row(source: Value, target: Value) -> None:
            def body(i: Value, lanes: int) -> None:
                # One load for each value, but one store for all of them.
                vectors = _vectors(builder, lanes, read, exact=True)
                first = ahead(builder, source, builder.mul(i, step))
                places = [ahead(builder, first, behind) for behind in steps[:lanes]]
                vectors.store(vectors.gathered(places), ahead(builder, target, i))

            _cover(builder, numbers[_COUNT], _lanes(width, read), body)

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def split_rows_tile(width: int, *, exact: bool = False) -> Any:  # noqa: ANN401  # numba's
    """Numbers: target[i] = source[2 i].

    A -0 becomes 0 unless the copy is exact. Of a row, source[0] .. source[2 * count - 2] are read.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        def row(source: Value, target: Value) -> None:
            def body(i: Value, lanes: int) -> None:
                # A stride of 2, the usual one, takes two whole loads and a shuffle for each vector.
                vectors = _vectors(builder, lanes, read, exact=exact)
                first = ahead(builder, source, builder.shl(i, integer(1)))
                value = vectors.load(first)
                # Two loads hold the values 0 .. 2 * lanes - 2. The second one overlaps the first by
                # one value, so that it ends with the last value that is needed, not one behind it.
                if lanes > 1:
                    later = vectors.load(ahead(builder, first, integer(lanes - 1)))
                    even = range(0, lanes, 2)
                    value = _choose(builder, value, later, [*even, *(lanes + 1 + j for j in even)])
                vectors.store(_kept(vectors, value, exact=exact), ahead(builder, target, i))

            _cover(builder, numbers[_COUNT], _lanes(width, read), body)

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def join_rows_tile(phases: int, width: int) -> Any:  # noqa: ANN401  # numba's
    """Numbers, pitch: target[i * phases + p] = source[p * pitch + i]; a -0 becomes 0.

    Args:
        phases: Rows to interleave, a power of two.
        width: Lanes of a vector.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        count, pitch = numbers[_COUNT:]
        shifts = [builder.mul(integer(phase), pitch) for phase in range(phases)]

        def row(source: Value, target: Value) -> None:
            def body(i: Value, lanes: int) -> None:
                vectors = Vectors(builder, lanes)
                # One vector of each phase is in registers; `_joined` interleaves them in
                # log2(phases) rounds of shuffles, and the results are stored side by side.
                places = [ahead(builder, source, builder.add(i, shift)) for shift in shifts]
                to = ahead(builder, target, builder.mul(i, integer(phases)))
                for number, value in enumerate(_joined(vectors, list(map(vectors.load, places)))):
                    vectors.store(value, ahead(builder, to, integer(number * lanes)))

            _cover(builder, count, width, body)

        _each_row(builder, (read, written), numbers, row)

    return function_of_two(emit)


def _lanes(width: int, read: Value) -> int:
    """Lanes of an array's elements in a vector of `width` float32."""
    return width * size_bytes_of(ir.FloatType()) // size_bytes_of(read.type.pointee)


def _vectors(builder: Value, lanes: int, read: Value, *, exact: bool) -> Vectors:
    """Vectors of an array's elements, which exact copies move as integers."""
    if not exact:
        return Vectors(builder, lanes)
    return Vectors(builder, lanes, ir.IntType(8 * size_bytes_of(read.type.pointee)))


def _kept(vectors: Vectors, value: Value, *, exact: bool) -> Value:
    # Adding 0 turns -0 into 0: in the workspace, -0 marks padding (opserve_kernels.sums).
    return value if exact else vectors.add(value, vectors.zero())


def _joined(lanes: Vectors, rows: Sequence[Value]) -> list[Value]:
    """Interleaves the lanes of the rows, and turns each -0 into 0.

    Row p is joined with row p + half, until one row is left: the rows between the two are joined
    between their values in a later round.
    """
    runs = [[lanes.add(row, lanes.zero())] for row in rows]
    while len(runs) > 1:
        half = len(runs) // 2
        pairs = zip(runs[:half], runs[half:], strict=True)
        runs = [
            [joined for pair in zip(*pair_, strict=True) for joined in lanes.joined(*pair)]
            for pair_ in pairs
        ]
    return runs[0]


def _each_row(
    builder: Value,
    arrays: tuple[Value, Value],
    numbers: Sequence[Value],
    row: Callable[[Value, Value], None],
) -> None:
    """Emits row(place to read, place to write) for each row of each plane."""
    source, source_planes, source_rows, target, target_planes, target_rows = numbers[:6]
    planes, rows = numbers[6:_COUNT]

    def plane(i: Value, state: Sequence[Value]) -> Sequence[Value]:
        from_ = ahead(builder, arrays[0], builder.add(source, builder.mul(i, source_planes)))
        to = ahead(builder, arrays[1], builder.add(target, builder.mul(i, target_planes)))

        def body(j: Value, inner: Sequence[Value]) -> Sequence[Value]:
            row(
                ahead(builder, from_, builder.mul(j, source_rows)),
                ahead(builder, to, builder.mul(j, target_rows)),
            )
            return inner

        loop(builder, (integer(0), rows, 1), [], body)
        return state

    loop(builder, (integer(0), planes, 1), [], plane)


def _cover(builder: Value, count: Value, lanes: int, body: Body) -> None:
    """Emits work that may repeat a value: a row in vectors as wide as its length allows."""
    if lanes == 1:
        _repeat(builder, (integer(0), count), 1, body)
        return
    condition = builder.icmp_signed(">=", count, integer(lanes))
    with builder.if_else(condition) as (wide, narrow):
        with wide:
            i = _repeat(builder, (integer(0), count), lanes, body)
            # The last vector ends with the row and overlaps the vector before it: cheaper than a
            # mask, and copies may repeat a value.
            with builder.if_then(builder.icmp_signed("<", i, count)):
                body(builder.sub(count, integer(lanes)), lanes)
        with narrow:
            _cover(builder, count, lanes // 2, body)


def _cover_once(builder: Value, count: Value, lanes: int, body: Body) -> None:
    """Emits work that must run exactly once for each value."""
    i = _repeat(builder, (integer(0), count), lanes, body)
    while lanes > 1:
        lanes //= 2
        i = _repeat(builder, (i, count), lanes, body)


def _repeat(builder: Value, bounds: tuple[Value, Value], lanes: int, body: Body) -> Value:
    def once(i: Value, state: Sequence[Value]) -> Sequence[Value]:
        body(i, lanes)
        return state

    i, _ = loop(builder, (*bounds, lanes), [], once)
    return i


def _choose(builder: Value, left: Value, right: Value, lanes: Sequence[int]) -> Value:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(left, right, mask)
