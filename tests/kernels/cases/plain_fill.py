"""The arithmetic of fills once more, from the page and without NumPy: integers and one rounding."""

from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256

MASK = 2**64 - 1
# Bits of exponent and mantissa.
FORMATS: Mapping[str, tuple[int, int]] = {
    "FLOAT": (8, 23),
    "FLOAT16": (5, 10),
    "BF16": (8, 7),
    "DOUBLE": (11, 52),
}
RANGES: Mapping[str, tuple[int, int]] = {
    **{f"INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}


def word(case_id: str, seed: int, tensor: str, place: int) -> int:
    digest = sha256(b"\0".join((case_id.encode(), str(seed).encode(), tensor.encode()))).digest()
    key = sum(byte << (8 * index) for index, byte in enumerate(digest[:8]))
    mixed = (key + (place + 1) * 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


def value(drawn: int, kind: str, bound: int, thinning: int) -> Fraction:
    lanes = sum((drawn >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
    even, bell = (drawn >> 43) - 2**20, lanes - 131070
    match kind:
        case "integer":
            high = ((drawn >> 32) * (2 * bound + 1)) >> 32
            return Fraction(high - bound if drawn % 2**thinning == 0 else 0)
        case "uniform":
            return Fraction(5 * even, 2**20)
        case "tiny":
            return Fraction(even, 2**30)
        case "offset":
            return Fraction(bell, 2**14) + 3
        case "outliers" if drawn % 1024 == 0:
            return Fraction(bell, 2**5)
        case _:
            return Fraction(bell, 2**15)


def bits(  # the columns of the page's vectors
    drawn: int, dtype: str, kind: str, *, place: int, bound: int = 0, thinning: int = 0
) -> int:
    """An element's bits, as an unsigned integer."""
    if kind == "special" and dtype in FORMATS and drawn % 64 == 0:
        return _special((drawn >> 6) & 7, (drawn >> 9) & 1, dtype)
    exact = value(drawn, kind, bound, thinning)
    if kind == "integer" and place == 0 and exact == 0:
        exact = Fraction(bound)
    if dtype == "BOOL":
        return int(exact != 0)
    if dtype in RANGES:
        least, most = RANGES[dtype]
        return min(max(int(exact), least), most) % (most - least + 1)
    return rounded(exact, dtype)


def rounded(exact: Fraction, dtype: str) -> int:
    """To nearest, ties to even; what these fills draw overflows nothing."""
    if exact == 0:
        return 0
    exponent_bits, mantissa_bits = FORMATS[dtype]
    sign, size, bias = int(exact < 0), abs(exact), (1 << (exponent_bits - 1)) - 1
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(exponent - int(size < _power(exponent)), 1 - bias)
    units = round(size / _power(exponent - mantissa_bits))  # ties go to even
    magnitude = units + ((exponent - 1 + bias) << mantissa_bits)
    return magnitude + (sign << (exponent_bits + mantissa_bits))


def _power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def _special(place: int, sign: int, dtype: str) -> int:
    exponent_bits, mantissa_bits = FORMATS[dtype]
    one = 2**mantissa_bits
    infinity = (2**exponent_bits - 1) * one
    bias = 2 ** (exponent_bits - 1) - 1
    large = infinity - 1 if dtype == "FLOAT16" else (60 + bias) * one
    magnitudes = (infinity, infinity + one // 2, large, one, 1, one - 1, 0, bias * one + 1)
    return magnitudes[place] + (sign << (exponent_bits + mantissa_bits))
