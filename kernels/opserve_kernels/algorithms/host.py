"""What the micro-kernels are generated for: the vectors and registers of this computer."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PLAIN_VARIABLE = "OPSERVE_PLAIN_KERNELS"
"""Environment variable; 1 selects the plain micro-kernels, which need no vector instructions."""
LANES_VARIABLE = "OPSERVE_KERNEL_LANES"
"""Environment variable; 4, 8 or 16 values in a vector, as processors of that width have them."""

_TILE_ROWS = {4: 4, 8: 4, 16: 8}


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
    """Instruction sets of an x86 processor, as Linux lists them; empty elsewhere.

    Plans need them without a compiler. An emulator of another processor shows the file of the real
    one, so the machine decides whether the file is read.
    """
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def find_host() -> Host:
    """This computer, or what the variables say. Sums and operands fill 16 or 32 registers."""
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
SUM_LANES = 64  # partial sums of a row of values, on any computer: whole vectors of each
ROW_COUNTS = (TILE_ROWS // 4, TILE_ROWS // 2, TILE_ROWS)


def whole_rows(channels: int) -> int:
    """Rows of sums that micro-kernels write for so many channels."""
    whole, rest = channels // TILE_ROWS * TILE_ROWS, channels % TILE_ROWS
    if rest == 0:
        return whole
    return whole + min(rows for rows in ROW_COUNTS if rows >= rest)
