"""Sums of runs of values, in SUM_LANES partial sums that stay in registers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.algorithms import host
from opserve_kernels.algorithms.codegen.vectors import (
    Value,
    Vectors,
    ahead,
    function_of_two,
    integer,
    loop,
)
from opserve_kernels.loops import compiled

Floats = NDArray[np.float32]
Triple = tuple[int, int, int]


def _emit(builder: Value, read: Value, written: Value, numbers: Sequence[Value]) -> None:
    source, count, totals = numbers
    lanes = Vectors(builder, host.LANES)
    start, place = ahead(builder, read, source), ahead(builder, written, totals)
    # SUM_LANES is the same on every computer, so the order of additions does not depend on the
    # vector width. In registers: 4 vectors of sums with AVX-512, 8 with AVX2, 16 with NEON.
    firsts = [integer(number) for number in range(0, host.SUM_LANES, host.LANES)]

    def add_values(i: Value, sums: Sequence[Value]) -> list[Value]:
        # Sums of different vectors do not depend on each other, so their additions overlap.
        here = ahead(builder, start, i)
        values = [lanes.load(ahead(builder, here, first)) for first in firsts]
        return [lanes.add(total, value) for total, value in zip(sums, values, strict=True)]

    before = [lanes.load(ahead(builder, place, first)) for first in firsts]
    i, sums = loop(builder, (integer(0), count, host.SUM_LANES), before, add_values)
    for first, total in zip(firsts, sums, strict=True):
        # The rest by mask: lanes behind the run are zeros and change no sum.
        at = builder.add(i, first)
        last = lanes.load_masked(ahead(builder, start, at), lanes.within(at, count))
        lanes.store(lanes.add(total, last), ahead(builder, place, first))


_tile = function_of_two(_emit)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 3))")
def _add_run(read: Floats, written: Floats, numbers: Triple) -> None:
    _tile(read, written, numbers)


@compiled("void(float32[::1], float32[::1], UniTuple(int64, 3))")
def add_run_plainly(read: Floats, written: Floats, numbers: Triple) -> None:
    """Plain loops."""
    source, count, totals = numbers
    for i in range(count):
        written[totals + i % host.SUM_LANES] += read[source + i]


add_run = add_run_plainly if host.VARIANT.plain else _add_run
"""read, written, (source, count, totals): totals[i % SUM_LANES] += read[source + i], i < count."""
