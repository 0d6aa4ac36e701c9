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

# By machine, the best first: vendor and instruction sets as Linux lists them, values of a vector,
# and whether pairs of BF16 values are multiplied by an instruction. Each machine but plain ones has
# fused multiply-add and conversions of FLOAT16 in hardware.
_WIDE, _NARROW = frozenset({"fma", "f16c", "avx512f"}), frozenset({"fma", "f16c", "avx2"})
# vdpbf16ps multiplies twice as much as FMA on Zen 4 (233 of 117 GFLOP/s). On Emerald Rapids it has
# half the rate of FMA, 87 of 170 GFLOP/s.
_FAST_PAIRS = _WIDE | {"AuthenticAMD", "avx512_bf16"}
_VECTORS: dict[str, tuple[tuple[frozenset[str], int, bool], ...]] = {
    "x86_64": ((_FAST_PAIRS, 16, True), (_WIDE, 16, False), (_NARROW, 8, False)),
    "aarch64": ((frozenset(), 4, False),),
    "arm64": ((frozenset(), 4, False),),
}
_LINES = ("vendor_id", "flags")
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
        pairs: Whether products of BF16 values are computed and added in pairs.
    """

    plain: bool
    lanes: int
    pairs: bool
    tile_rows: int
    tile_vectors: int = 3

    @property
    def name(self) -> str:
        """The name in reports: "fma16", "fma16-bf16" with pairs, or "plain8" without FMA."""
        return f"{'plain' if self.plain else 'fma'}{self.lanes}{'-bf16' if self.pairs else ''}"


def _features() -> frozenset[str]:
    """Vendor and instruction sets of an x86 processor, as Linux lists them; empty elsewhere.

    Plans read them without a compiler. An emulator of another processor shows the real processor's
    file, so the machine decides whether the file is read.
    """
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    firsts = (next((line for line in lines if line.startswith(key)), "") for key in _LINES)
    return frozenset(" ".join(firsts).split())


def find_variant() -> KernelVariant:
    """The variant of this computer, or the one that the variables name."""
    features = _features()
    rows = _VECTORS.get(platform.machine(), ())
    fitting = ((lanes, pairs) for needed, lanes, pairs in rows if needed <= features)
    found, pairs = next(fitting, (0, False))
    asked = os.environ.get(LANES_VARIABLE)
    plain = os.environ.get(PLAIN_VARIABLE) == "1" or not found
    lanes = int(asked or found or _PLAIN_LANES)
    pairs = pairs and not (plain or asked)
    return KernelVariant(plain=plain, lanes=lanes, pairs=pairs, tile_rows=_TILE_ROWS[lanes])


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
