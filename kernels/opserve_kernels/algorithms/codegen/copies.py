"""Generate copies: runs, strided runs, and rows side by side.

The functions take the array to read, the array to write and a tuple of integers.
"""

from collections.abc import Sequence
from typing import Any

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function_of_two,
    integer,
    loop,
)

_UNROLLED = 4  # vectors of a run between two branches


def copy_vectors(count: int, *, width: int) -> Any:  # noqa: ANN401  # numba's
    """(source, target): copies this many vectors."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        lanes = Vectors(builder, width)
        source, target = ahead(builder, read, numbers[0]), ahead(builder, written, numbers[1])
        for lane in range(0, count * width, width):
            # Unrolled when the code is generated: the count is a constant, so there is no branch.
            value = lanes.load(ahead(builder, source, integer(lane)))
            lanes.store(value, ahead(builder, target, integer(lane)))

    return function_of_two(emit)


def copy_lanes(width: int) -> Any:  # noqa: ANN401  # numba's
    """(source, target, count): copies `count` values, at most `width`."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        source, target, count = numbers
        places = ahead(builder, read, source), ahead(builder, written, target)
        Vectors(builder, width).copy_masked(*places, count, change=lambda value: value)

    return function_of_two(emit)


def copy_run(width: int) -> Any:  # noqa: ANN401  # numba's
    """(source, target, count): copies `count` values."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        count = numbers[2]
        source, target = ahead(builder, read, numbers[0]), ahead(builder, written, numbers[1])
        lanes = Vectors(builder, width)

        # Loads come before stores: the arrays may overlap, so the compiler moves no load across a
        # store, and the latencies of the four loads overlap only in this order.
        def several(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            places = [builder.add(i, integer(at)) for at in range(0, _UNROLLED * width, width)]
            values = [lanes.load(ahead(builder, source, place)) for place in places]
            for place, value in zip(places, values, strict=True):
                lanes.store(value, ahead(builder, target, place))
            return state

        def one(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            value = lanes.load(ahead(builder, source, i))
            lanes.store(value, ahead(builder, target, i))
            return state

        # Groups of vectors, then single vectors, then the rest by mask: no value beyond `count` is
        # read or written.
        i, _ = loop(builder, (integer(0), count, _UNROLLED * width), [], several)
        i, _ = loop(builder, (i, count, width), [], one)
        with builder.if_then(builder.icmp_signed("<", i, count)):
            places = ahead(builder, source, i), ahead(builder, target, i)
            lanes.copy_masked(*places, builder.sub(count, i), change=lambda value: value)

    return function_of_two(emit)


def copy_steps() -> Any:  # noqa: ANN401  # numba's
    """(source, source_step, target, target_step, count): copies values that are steps apart."""

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        source, source_step, target, target_step, count = numbers

        def several(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            for at in range(_UNROLLED):
                state = one(builder.add(i, integer(at)), state)
            return state

        def one(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            place = builder.add(source, builder.mul(i, source_step))
            value = builder.load(ahead(builder, read, place))
            place = builder.add(target, builder.mul(i, target_step))
            builder.store(value, ahead(builder, written, place))
            return state

        i, _ = loop(builder, (integer(0), count, _UNROLLED), [], several)
        loop(builder, (i, count, 1), [], one)

    return function_of_two(emit)


def interleave(rows: int) -> Any:  # noqa: ANN401  # numba's
    """(source, pitch, target, count): target[i * rows + u] = source[u * pitch + i], i < count.

    Args:
        rows: Rows to read, a power of two.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        source, pitch, target, count = numbers
        lanes = Vectors(builder, rows)
        starts = [
            ahead(builder, read, builder.add(source, builder.mul(pitch, integer(row))))
            for row in range(rows)
        ]

        # A square of rows x rows values: each row is loaded as one vector, the square is transposed
        # in registers, and each column is stored as one vector.
        def square(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            columns = lanes.transposed([lanes.load(ahead(builder, row, i)) for row in starts])
            for number, column in enumerate(columns):
                place = builder.mul(builder.add(i, integer(number)), integer(rows))
                lanes.store(column, ahead(builder, written, builder.add(target, place)))
            return state

        def one(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            place = builder.add(target, builder.mul(i, integer(rows)))
            for number, row in enumerate(starts):
                value = builder.load(ahead(builder, row, i))
                builder.store(value, ahead(builder, written, builder.add(place, integer(number))))
            return state

        # The columns behind the last whole square are copied value by value.
        i, _ = loop(builder, (integer(0), count, rows), [], square)
        loop(builder, (i, count, 1), [], one)

    return function_of_two(emit)


def separate(rows: int) -> Any:  # noqa: ANN401  # numba's
    """target[u * pitch + i] = source[i * source_pitch + u], i < count.

    The numbers are source, source_pitch, target, pitch, count.

    Args:
        rows: Rows to write, a power of two.
    """

    def emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
        source, source_pitch, target, pitch, count = numbers
        lanes = Vectors(builder, rows)
        starts = [
            ahead(builder, written, builder.add(target, builder.mul(pitch, integer(row))))
            for row in range(rows)
        ]

        # The reverse of `interleave`: vectors are loaded along the source's columns, transposed in
        # registers and stored along the target's rows.
        def square(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            places = [builder.mul(builder.add(i, integer(at)), source_pitch) for at in range(rows)]
            columns = [ahead(builder, read, builder.add(source, place)) for place in places]
            for start, row in zip(
                starts, lanes.transposed(list(map(lanes.load, columns))), strict=True
            ):
                lanes.store(row, ahead(builder, start, i))
            return state

        def one(i: Value, state: Sequence[Value]) -> Sequence[Value]:
            place = builder.add(source, builder.mul(i, source_pitch))
            for number, start in enumerate(starts):
                value = builder.load(ahead(builder, read, builder.add(place, integer(number))))
                builder.store(value, ahead(builder, start, i))
            return state

        i, _ = loop(builder, (integer(0), count, rows), [], square)
        loop(builder, (i, count, 1), [], one)

    return function_of_two(emit)
