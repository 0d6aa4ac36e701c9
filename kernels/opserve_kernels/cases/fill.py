"""Elements of a tensor from case id, seed and name: the same bits in every language.

docs/reference/conformance-cases.md defines them, with test vectors.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Fill, Kind
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

Array = NDArray[Any]
Words = NDArray[np.uint64]
Floats = NDArray[np.float32]

_BITS: Mapping[int, type[np.unsignedinteger[Any]]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}
GAP_BITS: Mapping[DataType, int] = {
    DataType.FLOAT: 0x7FE5A5A5,
    DataType.FLOAT16: 0x7FA5,
    DataType.BF16: 0x7FE5,
    DataType.DOUBLE: 0x7FFDA5A5A5A5A5A5,
}
"""Of storage that belongs to no element: quiet NaNs; other dtypes have bytes of 0xA5."""
UNWRITTEN_BITS: Mapping[DataType, int] = {
    DataType.FLOAT: 0x7FDA5A5A,
    DataType.FLOAT16: 0x7E5A,
    DataType.BF16: 0x7FDA,
    DataType.DOUBLE: 0x7FFA5A5A5A5A5A5A,
}
"""Of an output's elements before the call: quiet NaNs with bits that no operation makes and no
input has; other dtypes have bytes of 0xA5."""
SPECIAL_BITS: Mapping[DataType, tuple[int, ...]] = {
    DataType.FLOAT: (
        *(0x7F800000, 0x7FC00000, 0x5D800000, 0x00800000),
        *(0x00000001, 0x007FFFFF, 0x00000000, 0x3F800001),
    ),
    DataType.FLOAT16: (0x7C00, 0x7E00, 0x7BFF, 0x0400, 0x0001, 0x03FF, 0x0000, 0x3C01),
    DataType.BF16: (0x7F80, 0x7FC0, 0x5D80, 0x0080, 0x0001, 0x007F, 0x0000, 0x3F81),
    DataType.DOUBLE: (
        *(0x7FF0000000000000, 0x7FF8000000000000, 0x43B0000000000000, 0x0010000000000000),
        *(0x0000000000000001, 0x000FFFFFFFFFFFFF, 0x0000000000000000, 0x3FF0000000000001),
    ),
}
"""Infinity, NaN, large (2**60, of FLOAT16 65504), least normal, least and greatest subnormal, zero
and 1 with its last bit: magnitudes. Larger ones would make sums depend on their order."""
_STEP = 0x9E3779B97F4A7C15
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NEAR, _FAR = np.float32(2.0**-15), np.float32(2.0**-5)
_CHUNK = 1 << 18  # elements that are drawn at once, so that temporaries stay in the cache


def key_of(case_id: str, seed: int, tensor: str) -> int:
    """Start of the numbers of a tensor: 64 bits."""
    digest = sha256(f"{case_id}\0{seed}\0{tensor}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def words(key: int, first: int, count: int) -> Words:
    """64 random bits for each of the elements first .. first+count-1."""
    steps = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    mixed = np.uint64(key) + steps * np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST_FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return mixed


def drawn(key: int, count: int, fill: Fill, dtype: DataType) -> Array:
    """The elements 0 .. count-1 of a storage without gaps."""
    elements = np.empty(count, NUMPY_DTYPES[dtype])
    for first in range(0, count, _CHUNK):
        part = words(key, first, min(_CHUNK, count - first))
        elements[first : first + part.size] = _cast(_values(part, fill), dtype)
        if fill.kind == Kind.SPECIAL and dtype in SPECIAL_BITS:
            _put_special(elements[first : first + part.size], part, dtype)
    if fill.kind == Kind.INTEGER and count and not elements[0]:
        elements[0] = _cast(np.array([fill.bound], np.float32), dtype)[0]
    return elements


def gaps(count: int, dtype: DataType) -> Array:
    """Storage that contains no element."""
    return _patterned(count, dtype, GAP_BITS)


def unwritten(count: int, dtype: DataType) -> Array:
    """Elements of an output before a call."""
    return _patterned(count, dtype, UNWRITTEN_BITS)


def bits_of(elements: Array) -> Array:
    """The elements as unsigned integers; shares their memory."""
    return elements.view(_BITS[elements.itemsize])


def _patterned(count: int, dtype: DataType, bits: Mapping[DataType, int]) -> Array:
    size = dtype.size_bytes
    pattern = bits.get(dtype, int.from_bytes(b"\xa5" * size))
    return np.full(count, pattern, _BITS[size]).view(NUMPY_DTYPES[dtype])


def _values(part: Words, fill: Fill) -> Floats:
    """Values of any kind, exact in float32."""
    match fill.kind:
        case Kind.INTEGER:
            return _integers(part, fill)
        case Kind.UNIFORM:
            return _even(part) * np.float32(5 * 2.0**-20)
        case Kind.TINY:
            return _even(part) * np.float32(2.0**-30)
        case Kind.OFFSET:
            return (_bell(part) + np.float32(3 << 14)) * np.float32(2.0**-14)
        case Kind.NORMAL | Kind.SPECIAL:
            return _bell(part) * _NEAR
        case Kind.OUTLIERS:
            far = (part & np.uint64(1023)) == 0
            return np.multiply(_bell(part), np.where(far, _FAR, _NEAR), dtype=np.float32)
        case Kind.RECORDED:
            raise AssertionError("recorded elements are not drawn")


def _integers(part: Words, fill: Fill) -> Floats:
    span = np.uint64(2 * fill.bound + 1)
    high = ((part >> np.uint64(32)) * span) >> np.uint64(32)
    kept = (part & np.uint64((1 << fill.thinning) - 1)) == 0
    thinned: Floats = np.where(kept, high.astype(np.float32) - np.float32(fill.bound), 0)
    return thinned


def _even(part: Words) -> Floats:
    """-2**20 .. 2**20-1, with equal probability."""
    return (part >> np.uint64(43)).astype(np.float32) - np.float32(1 << 20)


def _bell(part: Words) -> Floats:
    """-131070 .. 131070: the sum of four 16-bit numbers, less its mean."""
    lanes = [(part >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    total = lanes[0] + lanes[1] + lanes[2] + lanes[3]
    centred: Floats = total.astype(np.float32) - np.float32(131070)
    return centred


def _cast(values: Floats, dtype: DataType) -> Array:
    """To nearest, ties to even; to an integer within its range, towards zero."""
    target = NUMPY_DTYPES[dtype]
    if target.kind in "iu":
        limits = np.iinfo(target)
        values = np.trunc(values).clip(limits.min, limits.max)
    with np.errstate(over="ignore"):  # a bound beyond FLOAT16's range becomes an infinity
        return values.astype(target)


def _put_special(elements: Array, part: Words, dtype: DataType) -> None:
    """Replaces one element of 64 by a special value: three bits choose it, one its sign."""
    magnitudes = np.array(SPECIAL_BITS[dtype], _BITS[dtype.size_bytes])
    chosen = np.flatnonzero((part & np.uint64(63)) == 0)
    codes = part[chosen] >> np.uint64(6)
    signs = ((codes >> np.uint64(3)) & np.uint64(1)) << np.uint64(8 * dtype.size_bytes - 1)
    places = (codes & np.uint64(7)).astype(np.intp)
    bits_of(elements)[chosen] = magnitudes[places] | signs.astype(magnitudes.dtype)
