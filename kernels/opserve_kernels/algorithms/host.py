"""The computer for which micro-kernels are generated: its vectors and registers."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PLAIN_VARIABLE = "OPSERVE_PLAIN_KERNELS"
"""Environment variable; 1 selects the plain micro-kernels, which need no vector instructions."""
LANES_VARIABLE = "OPSERVE_KERNEL_LANES"
"""Environment variable; 4, 8 or 16: the number of float32 values in a vector."""

# Sums, the vectors of one row and one factor fill the registers: 4 x 3 sums + 3 + 1 are the 16 of
# AVX2, 8 x 3 sums + 3 + 1 are 28 of the 32 of AVX-512. Other shapes of 12 sums spill: 3 rows x 4
# vectors did on AVX2.
_TILE_ROWS = {4: 4, 8: 4, 16: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The width of the micro-kernels.

    Attributes:
        plain: Whether they are plain loops, without fused multiply-add or by the variable.
        lanes: float32 values of a vector.
        tile_rows: Rows of sums that stay in registers: a power of two, at least 4 and at most
            `lanes`.
        tile_vectors: Vectors in such a row.
    """

    plain: bool
    lanes: int
    tile_rows: int
    tile_vectors: int = 3


def _features() -> frozenset[str]:
    """Instruction sets of an x86 processor, as Linux lists them; empty elsewhere.

    Plans read them without a compiler. An emulator of another processor shows the real processor's
    file, so the machine decides whether the file is read.
    """
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def find_host() -> Host:
    """This computer, or the one that the variables name."""
    features = _features()
    vectors = {"avx512f": 16, "avx2": 8} if {"fma", "f16c"} <= features else {}
    widths = [lanes for feature, lanes in vectors.items() if feature in features]
    if platform.machine() in {"aarch64", "arm64"}:
        widths.append(4)
    plain = os.environ.get(PLAIN_VARIABLE) == "1" or not widths
    lanes = int(os.environ.get(LANES_VARIABLE) or max(widths, default=8))
    return Host(plain=plain, lanes=lanes, tile_rows=_TILE_ROWS[lanes])


HOST = find_host()
# As integers, which loops can be compiled with:
LANES = HOST.lanes
TILE_ROWS = HOST.tile_rows
TILE_VECTORS = HOST.tile_vectors
TILE_COLUMNS = LANES * TILE_VECTORS
SUM_LANES = 64  # partial sums of a row of values, the same on any computer: whole vectors of each
ROW_COUNTS = (TILE_ROWS // 4, TILE_ROWS // 2, TILE_ROWS)


def whole_rows(channels: int) -> int:
    """Rows of sums that micro-kernels write for this many channels."""
    whole, rest = channels // TILE_ROWS * TILE_ROWS, channels % TILE_ROWS
    if rest == 0:
        return whole
    return whole + min(rows for rows in ROW_COUNTS if rows >= rest)
