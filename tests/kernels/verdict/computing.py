"""Gradients computed as a user's kernel may: right ones in any order, and wrong ones.

A gradient is written as rows of products: element e of an output is the sum over k of
left[e, k] * right[e, k], so that orders and precisions of its summation can be chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Given = NDArray[np.generic]
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Operands of sums, exact in their dtype, and what they add up to.

    Attributes:
        left: Of shape (elements, K).
        right: Likewise.
        dtype: Of operands and results.
    """

    left: Doubles
    right: Doubles
    dtype: str

    @property
    def expected(self) -> Doubles:
        """The sums in float64."""
        sums: Doubles = np.einsum("ek,ek->e", self.left, self.right)
        return sums

    @property
    def magnitude(self) -> Doubles:
        """The sums of the products' magnitudes."""
        sums: Doubles = np.einsum("ek,ek->e", np.abs(self.left), np.abs(self.right))
        return sums

    @property
    def terms(self) -> int:
        """Products in a sum."""
        return int(self.left.shape[1])

    def of(self, dtype: str) -> "Sums":
        """The same sums of operands that were rounded to another dtype first."""
        return Sums(
            left=as_dtype(self.left, dtype), right=as_dtype(self.right, dtype), dtype=self.dtype
        )


def as_dtype(values: Doubles, dtype: str) -> Doubles:
    """Rounded to a dtype; float32 lies between, which what is drawn here is exact in."""
    return values.astype(np.float32).astype(dtype).astype(np.float64)


def real_sums(
    random: np.random.Generator, *, elements: int, terms: int, dtype: str, offset: float = 0.0
) -> Sums:
    """Normally distributed operands, around 0 or an offset."""
    left, right = (random.standard_normal((elements, terms)) + offset for _ in range(2))
    return Sums(left=as_dtype(left, dtype), right=as_dtype(right, dtype), dtype=dtype)


def integer_sums(random: np.random.Generator, *, elements: int, terms: int, dtype: str) -> Sums:
    """Integers of -4 .. 4 so sparse that sums are exact in float32; not always in the dtype."""
    left, right = (random.integers(-4, 5, (elements, terms)).astype(float) for _ in range(2))
    return Sums(left=left, right=right, dtype=dtype)


def in_sequence(sums: Sums) -> Floats:
    """One product after the other, each product and each sum rounded to float32."""
    total = np.zeros(sums.left.shape[0], np.float32)
    for left, right in zip(
        sums.left.T.astype(np.float32), sums.right.T.astype(np.float32), strict=True
    ):
        total = total + left * right
    return total


def fused(sums: Sums) -> Floats:
    """Products that are not rounded, added to a float32 sum: a product fits into float64."""
    total = np.zeros(sums.left.shape[0], np.float32)
    for left, right in zip(sums.left.T, sums.right.T, strict=True):
        total = (total.astype(np.float64) + left * right).astype(np.float32)
    return total


def pairwise(sums: Sums) -> Floats:
    """Neighbours are added until one sum is left."""
    parts = sums.left.astype(np.float32) * sums.right.astype(np.float32)
    while parts.shape[1] > 1:
        if parts.shape[1] % 2:
            parts = np.pad(parts, ((0, 0), (0, 1)))
        parts = parts[:, ::2] + parts[:, 1::2]
    return parts[:, 0]


def blocked(sums: Sums, block: int = 16) -> Floats:
    """Blocks in sequence, then their sums from the last one on."""
    parts = [
        in_sequence(
            Sums(
                left=sums.left[:, i : i + block],
                right=sums.right[:, i : i + block],
                dtype=sums.dtype,
            )
        )
        for i in range(0, sums.terms, block)
    ]
    total = np.zeros_like(parts[0])
    for part in reversed(parts):
        total = total + part
    return total


def shuffled(sums: Sums, random: np.random.Generator) -> Sums:
    """The same products in another order."""
    order = random.permutation(sums.terms)
    return Sums(left=sums.left[:, order], right=sums.right[:, order], dtype=sums.dtype)


ORDERS: dict[str, Callable[[Sums], Floats]] = {
    "sequence": in_sequence,
    "fused": fused,
    "pairwise": pairwise,
    "blocked": blocked,
}


def rounded_once(total: Floats, dtype: str) -> Given:
    """A float32 sum as a result."""
    with np.errstate(over="ignore"):
        return total.astype(dtype)


def in_halves(sums: Sums) -> Given:
    """Products and sums rounded to float16."""
    total = np.zeros(sums.left.shape[0], np.float16)
    for left, right in zip(
        sums.left.T.astype(np.float16), sums.right.T.astype(np.float16), strict=True
    ):
        total = total + left * right
    return total.astype(sums.dtype)


def hf32(values: Doubles, *, truncated: bool = False) -> Doubles:
    """float32 values with 11 bits after the point: to nearest, ties away, or cut off."""
    bits = values.astype(np.float32).view(np.uint32)
    half = np.uint32(0 if truncated else 0x800)
    return ((bits + half) & np.uint32(0xFFFFF000)).view(np.float32).astype(np.float64)


def brain(values: NDArray[np.floating]) -> Given:
    """float32 and float16 values as bfloat16."""
    return values.astype(ml_dtypes.bfloat16)
