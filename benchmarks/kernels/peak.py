"""Peak of one core and of several: a loop of independent vector multiply-adds."""

import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from statistics import median
from typing import Any

from opserve_kernels.loops import compiled

_CHAINS = 12  # independent sums: more than latency times throughput, fewer than registers
_ROUNDS = 3_000_000
_TIMES = 9

Value = Any
"""A value, type or builder of llvmlite, which has no type stubs."""

_binding: Value = import_module("llvmlite.binding")
_ir: Value = import_module("llvmlite.ir")
_numba: Value = import_module("numba")


def _lanes() -> int:
    """Returns the number of floats in a vector of this machine."""
    features = _binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") else 4


_LANES = _lanes()


def _multiply_add_rounds(_context: Value, _rounds: Value) -> tuple[Value, Value]:
    """Computes sum = sum * x + x in every chain; returns a lane, so that none is dropped."""
    signature = _numba.types.float32(_numba.types.int64)
    return signature, _emit


def _emit(_context: Value, builder: Value, _signature: Value, arguments: Value) -> Value:
    scalar, integer = _ir.FloatType(), _ir.IntType(64)
    vector = _ir.VectorType(scalar, _LANES)
    multiply_add = _ir.Function(
        builder.module, _ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_LANES}f32"
    )
    start, loop, end = builder.block, *(builder.append_basic_block(name) for name in ("l", "e"))
    small = builder.fmul(builder.sitofp(arguments[0], scalar), _ir.Constant(scalar, 2.0**-40))
    x = _ir.Constant(vector, _ir.Undefined)
    for lane in range(_LANES):
        x = builder.insert_element(x, small, _ir.Constant(_ir.IntType(32), lane))
    builder.branch(loop)
    builder.position_at_end(loop)
    counter = builder.phi(integer)
    chains = [builder.phi(vector) for _ in range(_CHAINS)]
    sums = [builder.call(multiply_add, [chain, x, x]) for chain in chains]
    following = builder.add(counter, _ir.Constant(integer, 1))
    counter.add_incoming(_ir.Constant(integer, 0), start)
    counter.add_incoming(following, loop)
    for chain, found in zip(chains, sums, strict=True):
        chain.add_incoming(_ir.Constant(vector, [1.0] * _LANES), start)
        chain.add_incoming(found, loop)
    builder.cbranch(builder.icmp_signed("<", following, arguments[0]), loop, end)
    builder.position_at_end(end)
    total = sums[0]
    for found in sums[1:]:
        total = builder.fadd(total, found)
    return builder.extract_element(total, _ir.Constant(_ir.IntType(32), 0))


_rounds_of_multiply_adds: Value = import_module("numba.extending").intrinsic(_multiply_add_rounds)


@compiled("float32(int64)")
def _loop(rounds: int) -> float:
    found: float = _rounds_of_multiply_adds(rounds)
    return found


def peak_operations() -> float:
    """Returns the operations per second of one core: a multiply-add counts as two in each lane."""
    seconds: list[float] = []
    for _ in range(_TIMES):
        start = time.thread_time()
        _loop(_ROUNDS)
        seconds.append(time.thread_time() - start)
    return 2 * _LANES * _CHAINS * _ROUNDS / median(seconds)


def loops_at_once(threads: int) -> float:
    """Returns how many loops several threads run in the time of one, by the clock.

    Fewer than the threads where other processes use the cores; least times of several runs count.
    """
    with ThreadPoolExecutor(threads) as pool:
        one, several = (
            min(_seconds_of(pool, count) for _ in range(_TIMES)) for count in (1, threads)
        )
    return threads * one / several


def _seconds_of(pool: ThreadPoolExecutor, count: int) -> float:
    start = time.perf_counter()
    list(pool.map(_loop, [_ROUNDS] * count))
    return time.perf_counter() - start
