"""FLOAT16 to float32 and back by the processor's own instructions: numba has no such type.

Bits of FLOAT16 are uint16. LLVM turns loops over them into vector instructions.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from numba import types  # pyright: ignore[reportMissingTypeStubs]
from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]

_HALF, _BITS = ir.HalfType(), ir.IntType(16)


def _widened(_context: Any, _half: Any) -> Any:  # noqa: ANN401  # numba's
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
        return builder.fpext(builder.bitcast(arguments[0], _HALF), ir.FloatType())

    return types.float32(types.uint16), generate


def _narrowed(_context: Any, _value: Any) -> Any:  # noqa: ANN401  # numba's
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
        return builder.bitcast(builder.fptrunc(arguments[0], _HALF), _BITS)

    return types.uint16(types.float32), generate


widened: Any = intrinsic(_widened)
"""FLOAT16 to float32, exact."""

narrowed: Any = intrinsic(_narrowed)
"""Float32 to FLOAT16, to nearest."""
