"""Generate the depthwise row kernels: shifted runs of one plane, weighted or compared.

The functions take one memory for all operands and a tuple of integers. Places count float32 values
from its start, offsets are int32 in the same memory.
"""

from collections.abc import Sequence
from typing import Any

from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function,
    integer,
    load_integer,
    loop,
)


def weigh_tile(vectors: int, *, width: int) -> Any:  # noqa: ANN401  # numba's
    """memory, (depth, weights, offsets, source, target).

    target[i] = sum over k < depth of weights[k] * source[offsets[k] + i], i < vectors * width

    Args:
        vectors: Vectors of sums in registers.
        width: Lanes of a vector.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        depth, weights, offsets, source, target = numbers
        lanes = Vectors(builder, width)
        places = [integer(number * width) for number in range(vectors)]

        # In registers: the vectors of sums and one weight in all lanes.
        def add_product(k: Value, sums: Sequence[Value]) -> list[Value]:
            weight = lanes.broadcast(ahead(builder, memory, builder.add(weights, k)))
            offset = load_integer(builder, memory, builder.add(offsets, k))
            row = ahead(builder, memory, builder.add(source, offset))
            values = [lanes.load(ahead(builder, row, place)) for place in places]
            return [
                lanes.multiply_add(weight, value, total)
                for value, total in zip(values, sums, strict=True)
            ]

        zeros = [lanes.zero()] * vectors
        _, sums = loop(builder, (integer(0), depth, 1), zeros, add_product)
        start = ahead(builder, memory, target)
        for place, total in zip(places, sums, strict=True):
            lanes.store(total, ahead(builder, start, place))

    return function(emit)


def compare_tile(taps: int, *, width: int) -> Any:  # noqa: ANN401  # numba's
    """memory, (count, left, source, offsets, totals).

    totals[k] = sum over i < count of left[i] * source[offsets[k] + i], k < taps

    Args:
        taps: Sums.
        width: Lanes of a vector, of which count is a multiple.
    """

    def emit(builder: Value, memory: Value, numbers: Sequence[Value]) -> None:
        count, left, source, offsets, totals = numbers
        lanes = Vectors(builder, width)
        # Base addresses of all taps are computed once, before the loop over positions.
        rows: list[Value] = []
        for tap in range(taps):
            offset = load_integer(builder, memory, builder.add(offsets, integer(tap)))
            rows.append(ahead(builder, memory, builder.add(source, offset)))
        left_row = ahead(builder, memory, left)

        # In registers: one vector of sums for each tap, and one vector of left, which is loaded
        # once for all taps.
        def add_products(i: Value, sums: Sequence[Value]) -> list[Value]:
            factor = lanes.load(ahead(builder, left_row, i))
            values = [lanes.load(ahead(builder, row, i)) for row in rows]
            return [
                lanes.multiply_add(factor, value, total)
                for value, total in zip(values, sums, strict=True)
            ]

        zeros = [lanes.zero()] * taps
        _, sums = loop(builder, (integer(0), count, width), zeros, add_products)
        # Lanes are added up once, behind the loop.
        for tap, total in enumerate(sums):
            place = ahead(builder, memory, builder.add(totals, integer(tap)))
            builder.store(lanes.lane(lanes.sums([total]), 0), place)

    return function(emit)
