"""What the micro-kernels are generated for: the vectors and registers of this computer."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PLAIN_VARIABLE = "OPSERVE_PLAIN_KERNELS"
"""Environment variable; 1 selects the plain micro-kernels, which need no vector instructions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """How wide micro-kernels are.

    Attributes:
        plain: Whether they are plain loops, for want of fused multiply-add or by the variable.
        lanes: float32 values of a vector.
        tile_rows: Rows of sums that stay in registers: a power of two of at least 4, at most the
            lanes.
        tile_vectors: Vectors in such a row.
    """

    plain: bool
    lanes: int
    tile_rows: int
    tile_vectors: int = 3


def _features() -> frozenset[str]:
    """What the kernel tells of an x86 processor; empty elsewhere. Plans ask, without a compiler."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def find_host() -> Host:
    """This computer. Sums and one row of operands fill 16 or 32 vector registers."""
    features = _features()
    plain = os.environ.get(PLAIN_VARIABLE) == "1"
    if "avx512f" in features:
        return Host(plain=plain, lanes=16, tile_rows=8)
    if {"avx2", "fma", "f16c"} <= features:
        return Host(plain=plain, lanes=8, tile_rows=4)
    if platform.machine() in {"aarch64", "arm64"}:
        return Host(plain=plain, lanes=4, tile_rows=4)
    return Host(plain=True, lanes=8, tile_rows=4)


HOST = find_host()
# As integers, which loops can be compiled with:
LANES = HOST.lanes
TILE_ROWS = HOST.tile_rows
TILE_VECTORS = HOST.tile_vectors
TILE_COLUMNS = LANES * TILE_VECTORS
ROW_COUNTS = (TILE_ROWS // 4, TILE_ROWS // 2, TILE_ROWS)


def whole_rows(channels: int) -> int:
    """Rows of sums that micro-kernels write for so many channels."""
    whole, rest = channels // TILE_ROWS * TILE_ROWS, channels % TILE_ROWS
    if rest == 0:
        return whole
    return whole + min(rows for rows in ROW_COUNTS if rows >= rest)
