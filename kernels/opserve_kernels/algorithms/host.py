"""The kernel variant of this computer: what fixes the bytes of results besides the call itself.

The variant follows from the processor's features by a table, never from a timing, a number of cores
or the size of a cache.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

PLAIN_VARIABLE = "OPSERVE_PLAIN_KERNELS"
"""Environment variable; 1 selects the plain micro-kernels, which need no vector instructions."""
LANES_VARIABLE = "OPSERVE_KERNEL_LANES"
"""Environment variable; 4, 8 or 16: the number of float32 values in a vector."""

# By machine, the widest first: instruction sets as Linux lists them, and values of a vector. Each
# machine but plain ones has fused multiply-add and conversions of FLOAT16 in hardware.
_VECTORS: dict[str, tuple[tuple[frozenset[str], int], ...]] = {
    "x86_64": (
        (frozenset({"fma", "f16c", "avx512f"}), 16),
        (frozenset({"fma", "f16c", "avx2"}), 8),
    ),
    "aarch64": ((frozenset(), 4),),
    "arm64": ((frozenset(), 4),),
}
_PLAIN_LANES = 8
# Sums, the vectors of one row and one factor fill the registers: 4 x 3 sums + 3 + 1 are the 16 of
# AVX2, 8 x 3 sums + 3 + 1 are 28 of the 32 of AVX-512. Other shapes of 12 sums spill: 3 rows x 4
# vectors did on AVX2.
_TILE_ROWS = {4: 4, 8: 4, 16: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVariant:
    """The arithmetic of the micro-kernels. Equal calls return equal bytes with equal variants.

    Attributes:
        plain: Whether they are plain loops, without fused multiply-add.
        lanes: float32 values of a vector, which are partial sums.
        tile_rows: Rows of sums that stay in registers: a power of two, at least 4 and at most
            `lanes`.
        tile_vectors: Vectors in such a row.
    """

    plain: bool
    lanes: int
    tile_rows: int
    tile_vectors: int = 3

    @property
    def name(self) -> str:
        """The name in reports: "fma16", or "plain8" without fused multiply-add."""
        return f"{'plain' if self.plain else 'fma'}{self.lanes}"


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


def find_variant() -> KernelVariant:
    """The variant of this computer, or the one that the variables name."""
    features = _features()
    rows = _VECTORS.get(platform.machine(), ())
    found = next((lanes for needed, lanes in rows if needed <= features), None)
    plain = os.environ.get(PLAIN_VARIABLE) == "1" or found is None
    lanes = int(os.environ.get(LANES_VARIABLE) or found or _PLAIN_LANES)
    return KernelVariant(plain=plain, lanes=lanes, tile_rows=_TILE_ROWS[lanes])


VARIANT = find_variant()
# As integers, which loops can be compiled with:
LANES = VARIANT.lanes
TILE_ROWS = VARIANT.tile_rows
TILE_VECTORS = VARIANT.tile_vectors
TILE_COLUMNS = LANES * TILE_VECTORS
SUM_LANES = 64  # partial sums of a row of values, the same on any computer: whole vectors of each
ROW_COUNTS = (TILE_ROWS // 4, TILE_ROWS // 2, TILE_ROWS)


def whole_rows(channels: int) -> int:
    """Rows of sums that micro-kernels write for this many channels."""
    whole, rest = channels // TILE_ROWS * TILE_ROWS, channels % TILE_ROWS
    if rest == 0:
        return whole
    return whole + min(rows for rows in ROW_COUNTS if rows >= rest)
