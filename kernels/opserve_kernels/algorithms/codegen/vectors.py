"""Vector instructions of any width as LLVM IR: the building blocks of the micro-kernels."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from numba import types  # pyright: ignore[reportMissingTypeStubs]
from numba.core import cgutils  # pyright: ignore[reportMissingTypeStubs]
from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import override

Value = Any
"""A value, type or builder of llvmlite, which has no types of its own."""
State = TypeVar("State", bound=Sequence[Value])

_INT32, _INT64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_UNDEFINED = cast("Value", ir).Undefined
_insert_function = cast("Value", cgutils).get_or_insert_function
_SIGN = 1 << 31  # the bits of -0.0
_FLOAT_ALIGNMENT = 4  # vectors are read and written at any float32


class _BFloat(cast("Value", ir).Type):  # type: ignore[misc]  # llvmlite's, which has no BF16
    """LLVM's type of BF16 values."""

    def _to_string(self) -> str:
        return "bfloat"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    @override
    def __hash__(self) -> int:
        return hash(_BFloat)


_BFLOAT = _BFloat()
_UPPER_HALF = 0xFFFF0000


class Vectors:
    """Emits code for vectors of `width` lanes, float32 unless another type is given.

    Attributes:
        builder: The builder that receives the code.
        width: Lanes.
    """

    def __init__(self, builder: Value, width: int, lane: Value = _FLOAT) -> None:
        self.builder = builder
        self.width = width
        self._type = ir.VectorType(lane, width)
        # Vectors are read and written at any element.
        self._alignment = size_bytes_of(lane)

    def zero(self) -> Value:
        """Zero in every lane."""
        return ir.Constant(self._type, [0.0] * self.width)

    def load(self, place: Value) -> Value:
        """The lanes that start at a place."""
        pointer = self.builder.bitcast(place, self._type.as_pointer())
        loaded = self.builder.load(pointer)
        loaded.align = self._alignment
        return loaded

    def gathered(self, places: Sequence[Value]) -> Value:
        """One lane from each place."""
        vector = ir.Constant(self._type, _UNDEFINED)
        for number, place in enumerate(places):
            pointer = self.builder.bitcast(place, self._type.element.as_pointer())
            lane = self.builder.load(pointer)
            vector = self.builder.insert_element(vector, lane, _int32(number))
        return vector

    def load_as(self, place: Value, like: Value) -> Value:
        """As many lanes as another vector has, from a place on."""
        pointer = self.builder.bitcast(place, like.type.as_pointer())
        loaded = self.builder.load(pointer)
        loaded.align = _FLOAT_ALIGNMENT
        return loaded

    def store(self, value: Value, place: Value) -> None:
        """The reverse of load."""
        pointer = self.builder.bitcast(place, value.type.as_pointer())
        self.builder.store(value, pointer).align = self._alignment

    def copy_masked(
        self, source: Value, target: Value, count: Value, *, change: Callable[[Value], Value]
    ) -> None:
        """Copies the first `count` lanes, changed; others are neither read nor written."""
        mask = self.within(integer(0), count)
        self.store_masked(change(self.load_masked(source, mask)), target, mask)

    def within(self, start: Value, stop: Value) -> Value:
        """A mask of the lanes i where 0 <= start + i < stop."""
        numbers = ir.VectorType(_INT64, self.width)
        lanes = ir.Constant(numbers, list(range(self.width)))
        # Unsigned: a place below 0 is greater than any stop, so one comparison checks both bounds.
        places = self.builder.add(self._broadcast(start, numbers), lanes)
        return self.builder.icmp_unsigned("<", places, self._broadcast(stop, numbers))

    def only_if(self, condition: Value, mask: Value) -> Value:
        """The mask, or no lane at all."""
        return self.builder.select(condition, mask, ir.Constant(mask.type, [0] * self.width))

    def load_masked(self, place: Value, mask: Value) -> Value:
        """The lanes of a mask; the others are zero and their memory is not read."""
        pointer = self._type.as_pointer()
        # Masked accesses touch no memory of other lanes, so a vector may end behind its tensor.
        kind = ir.FunctionType(self._type, [pointer, _INT32, mask.type, self._type])
        return self.builder.call(
            self._function(f"llvm.masked.load.v{self.width}f32.p0", kind),
            [self.builder.bitcast(place, pointer), _int32(_FLOAT_ALIGNMENT), mask, self.zero()],
        )

    def store_masked(self, value: Value, place: Value, mask: Value) -> None:
        """Writes the lanes of a mask."""
        pointer = self._type.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [self._type, pointer, _INT32, mask.type])
        self.builder.call(
            self._function(f"llvm.masked.store.v{self.width}f32.p0", kind),
            [value, self.builder.bitcast(place, pointer), _int32(_FLOAT_ALIGNMENT), mask],
        )

    def broadcast(self, place: Value) -> Value:
        """One float32 in every lane."""
        return self._broadcast(self.builder.load(place), self._type)

    def multiply_add(self, left: Value, right: Value, total: Value) -> Value:
        """The sum left * right + total, rounded once."""
        kind = ir.FunctionType(self._type, [self._type] * 3)
        name = f"llvm.fma.v{self.width}f32"
        return self.builder.call(self._function(name, kind), [left, right, total])

    def multiply_add_pairs(self, left: Value, right: Value, total: Value) -> Value:
        """The total plus the products of the upper BF16 halves, then those of the lower ones.

        Each sum is rounded. Numbers whose exponent is that of subnormals count as 0.
        """
        pairs = ir.VectorType(_BFLOAT, 2 * self.width)
        kind = ir.FunctionType(self._type, [self._type, pairs, pairs])
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.width}"
        halves = [self.builder.bitcast(value, pairs) for value in (left, right)]
        return self.builder.call(self._function(name, kind), [total, *halves])

    def paired(self, upper: Value, lower: Value) -> Value:
        """BF16 values of two vectors of float32 as the halves of each lane."""
        integers = ir.VectorType(_INT32, self.width)
        high, low = (self.builder.bitcast(value, integers) for value in (upper, lower))
        mask, bits = (ir.Constant(integers, [one] * self.width) for one in (_UPPER_HALF, 16))
        word = self.builder.or_(self.builder.and_(high, mask), self.builder.lshr(low, bits))
        return self.builder.bitcast(word, self._type)

    def multiply_add_image(self, left: Value, right: Value, total: Value) -> Value:
        """The sum left * right + total where right is not -0.0, sums.PADDING; else the total."""
        integers = ir.VectorType(_INT32, self.width)
        padding = ir.Constant(integers, [_SIGN] * self.width)
        # Compared as integers: as floats, -0.0 equals 0.0.
        outside = self.builder.icmp_unsigned("==", self.builder.bitcast(right, integers), padding)
        return self.builder.select(outside, total, self.multiply_add(left, right, total))

    def add(self, left: Value, right: Value) -> Value:
        """The sum, lane by lane."""
        return self.builder.fadd(left, right)

    def lane(self, vector: Value, number: int) -> Value:
        """One lane."""
        return self.builder.extract_element(vector, _int32(number))

    def transposed(self, rows: Sequence[Value]) -> list[Value]:
        """Vector i of the result has lane i of every row.

        Args:
            rows: As many rows as a vector has lanes, a power of two.
        """
        lanes = range(len(rows))
        # Log2(lanes) rounds: a round swaps blocks of `distance` lanes between two rows, so that
        # lane bit and row bit of that weight change places.
        distance = 1
        while distance < len(rows):
            after = list(rows)
            for row in lanes:
                if row & distance:
                    continue
                pair = rows[row], rows[row + distance]
                lower = [lane ^ distance | len(rows) if lane & distance else lane for lane in lanes]
                upper = [len(rows) | lane if lane & distance else lane | distance for lane in lanes]
                after[row] = self._choose(*pair, lower)
                after[row + distance] = self._choose(*pair, upper)
            rows = after
            distance *= 2
        return list(rows)

    def split(self, lower: Value, upper: Value) -> tuple[Value, Value]:
        """The even values of two consecutive vectors, and the odd ones."""
        even, odd = (range(phase, 2 * self.width, 2) for phase in range(2))
        return self._choose(lower, upper, even), self._choose(lower, upper, odd)

    def joined(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Two vectors in which the lanes of both alternate."""
        # Lane numbers of a shuffle: those of the left vector first, then those of the right one.
        order = [number for lane in range(self.width) for number in (lane, self.width + lane)]
        lower, upper = order[: self.width], order[self.width :]
        return self._choose(left, right, lower), self._choose(left, right, upper)

    def sums(self, vectors: Sequence[Value]) -> Value:
        """The sum of each vector's lanes, one lane for each vector.

        Two vectors are folded into one that has half as many partial sums of each, until one
        vector is left. That vector is folded until it has a single sum of each:
            a0 a1 a2 a3, b0 b1 b2 b3  ->  a0+a2 a1+a3 b0+b2 b1+b3  ->  a b

        Args:
            vectors: A power of two of them, at most `width`.
        """
        partial = self.width
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self._fold(left, right, partial) for left, right in pairs]
            partial //= 2
        (folded,) = vectors
        while partial > 1:
            folded = self._fold(folded, None, partial)
            partial //= 2
        return folded

    def _broadcast(self, value: Value, kind: Value) -> Value:
        undefined = ir.Constant(kind, _UNDEFINED)
        first = self.builder.insert_element(undefined, value, _int32(0))
        return self._choose(first, undefined, [0] * self.width)

    def _function(self, name: str, kind: Value) -> Value:
        return _insert_function(self.builder.module, kind, name)

    def _fold(self, left: Value, right: Value, partial: int) -> Value:
        """Adds the second half of every run of `partial` lanes to its first half."""
        # A shuffle may have fewer result lanes than its operands: folding one vector halves it.
        lanes = left.type.count if right is None else 2 * left.type.count
        lower = [lane for lane in range(lanes) if lane % partial < partial // 2]
        upper = [lane + partial // 2 for lane in lower]
        other = ir.Constant(left.type, _UNDEFINED) if right is None else right
        return self.add(self._choose(left, other, lower), self._choose(left, other, upper))

    def _choose(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        mask = ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes))
        return self.builder.shuffle_vector(left, right, mask)


def size_bytes_of(lane: Value) -> int:
    """Bytes of a lane: an integer of any width, or a float32."""
    return lane.width // 8 if isinstance(lane, ir.IntType) else _FLOAT_ALIGNMENT


def integer(value: int) -> Value:
    """A constant of the integer type of places and counts."""
    return ir.Constant(_INT64, value)


def ahead(builder: Value, place: Value, count: Value) -> Value:
    """The place `count` elements after another."""
    return builder.gep(place, [count])


def load_integer(builder: Value, floats: Value, place: Value) -> Value:
    """The int32 at the place of a float32."""
    integers = builder.bitcast(floats, _INT32.as_pointer())
    return builder.sext(builder.load(builder.gep(integers, [place])), _INT64)


def prefetch(builder: Value, place: Value) -> None:
    """Prefetches the memory around a place, which may be any, into the second-level cache."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
    function = _insert_function(builder.module, kind, "llvm.prefetch.p0")
    for_reading, into_second_level, of_data = _int32(0), _int32(2), _int32(1)
    place = builder.bitcast(place, pointer)
    builder.call(function, [place, for_reading, into_second_level, of_data])


def loop(
    builder: Value,
    bounds: tuple[Value, Value, int],
    state: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], Sequence[Value]],
) -> tuple[Value, list[Value]]:
    """Loops: for (i = start; i + step <= stop; i += step) state = body(i, state).

    Args:
        builder: The builder that receives the code; afterwards it is positioned behind the loop.
        bounds: start, stop and step.
        state: Values that one round passes to the next.
        body: Emits a round.

    Returns:
        i and the state behind the loop.
    """
    start, stop, step = bounds
    before = builder.block
    head, inside, behind = (builder.append_basic_block(name) for name in ("head", "in", "behind"))
    builder.branch(head)
    builder.position_at_end(head)
    # State is in phi nodes, not in stack slots: sums stay in registers from round to round.
    # The test is at the head: a loop whose bounds allow no whole step runs no round.
    index = builder.phi(_INT64)
    carried = [builder.phi(value.type) for value in state]
    following = builder.add(index, integer(step))
    builder.cbranch(builder.icmp_signed("<=", following, stop), inside, behind)
    builder.position_at_end(inside)
    after = body(index, carried)
    for phi, first, next_ in zip(
        [index, *carried], [start, *state], [following, *after], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(next_, builder.block)
    builder.branch(head)
    builder.position_at_end(behind)
    return index, carried


def function(emit: Callable[[Value, Value, Sequence[Value]], None]) -> Any:  # noqa: ANN401  # numba's
    """A function of memory (float32[::1]) and a tuple of integers, whose code `emit` writes."""

    def typed(_context: Any, memory: Any, numbers: Any) -> Any:  # noqa: ANN401  # numba's
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            places = _first_place(context, builder, signature.args[0], arguments[0])
            emit(builder, places, _values(builder, arguments[1], numbers))
            return context.get_dummy_value()

        return types.void(memory, numbers), generate

    return intrinsic(typed)


def function_of_two(emit: Callable[[Value, Value, Value, Sequence[Value]], None]) -> Any:  # noqa: ANN401  # numba's
    """The same for code that reads one array and writes another, or the same one."""

    def typed(_context: Any, source: Any, target: Any, numbers: Any) -> Any:  # noqa: ANN401  # numba's
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            read, written = _first_places(context, builder, signature, arguments)
            emit(builder, read, written, _values(builder, arguments[2], numbers))
            return context.get_dummy_value()

        return types.void(source, target, numbers), generate

    return intrinsic(typed)


def function_of_three(emit: Callable[[Value, Sequence[Value], Sequence[Value]], None]) -> Any:  # noqa: ANN401  # numba's
    """The same for three arrays."""

    def typed(_context: Any, first: Any, second: Any, third: Any, numbers: Any) -> Any:  # noqa: ANN401  # numba's
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            places = _first_places(context, builder, signature, arguments)
            emit(builder, places, _values(builder, arguments[3], numbers))
            return context.get_dummy_value()

        return types.void(first, second, third, numbers), generate

    return intrinsic(typed)


def function_of_four(emit: Callable[[Value, Sequence[Value], Sequence[Value]], None]) -> Any:  # noqa: ANN401  # numba's
    """The same for four arrays."""

    def typed(  # arrays
        _context: Any,  # noqa: ANN401  # numba's, as are all
        first: Any,  # noqa: ANN401
        second: Any,  # noqa: ANN401
        third: Any,  # noqa: ANN401
        fourth: Any,  # noqa: ANN401
        numbers: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            places = _first_places(context, builder, signature, arguments)
            emit(builder, places, _values(builder, arguments[4], numbers))
            return context.get_dummy_value()

        return types.void(first, second, third, fourth, numbers), generate

    return intrinsic(typed)


def _first_places(context: Any, builder: Value, signature: Any, arguments: Any) -> list[Value]:  # noqa: ANN401  # numba's
    """Places of the first elements of all arguments but the last, which is a tuple."""
    arrays = zip(signature.args[:-1], arguments[:-1], strict=True)
    return [_first_place(context, builder, kind, array) for kind, array in arrays]


def _first_place(context: Any, builder: Value, kind: Any, array: Value) -> Value:  # noqa: ANN401  # numba's
    return context.make_array(kind)(context, builder, array).data


def _values(builder: Value, numbers: Value, kind: Any) -> list[Value]:  # noqa: ANN401  # numba's
    return [builder.extract_value(numbers, i) for i in range(kind.count)]


def _int32(value: int) -> Value:
    return ir.Constant(_INT32, value)
