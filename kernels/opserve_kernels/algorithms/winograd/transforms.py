"""The transforms of Winograd's algorithm, which takes a quarter of a convolution's products.

A tile of a correlation with a kernel of 3 taps is 4 results of 6 values of an image. Evaluated as
polynomials at 6 points, it takes 6 products where the definition takes 12 (and 10 for 2 results of
5 taps):

    result = A^T [ (G kernel) * (B^T image) ]        kernel (3), image (6), result (4)

and in two dimensions, a dimension at a time, 36 where the definition takes 144 (100). For the
gradient of the kernel, kernel and result exchange their parts: 4 "taps" (a tile of the output's
gradient) and 3
results (the taps), or 2 and 5. The points are 0, a, -a, 1/a, -1/a and infinity, a = POINT: with

    M(x) = x (x^2 - a^2) (x^2 - a^-2),    M_p(x) = M(x) / (x - p)

row p of B^T holds the coefficients of M_p, of G the powers of p divided by M_p(p), and of A the
powers of p; infinity has M itself, and the highest power. Rows of p and -p share their even and
their odd part.

The error. Let u = 2^-24. For independent values of variance 1, product xi of a tile has the
variance C |G_xi|^2 |B_xi|^2 (C channels, squared norms of rows). Adding C products one by one
rounds C partial sums, a relative error of u sqrt(C / 6); the transforms add a dozen roundings, and
A^T takes the squares of its factors. Divided by the results' own variance C taps^2, their error is

    u sqrt(C / 6 + 12) k,    k = max over rows i of  sum over p of A_pi^2 |G_p|^2 |B_p|^2 / taps

because both dimensions multiply. k is 7.1 for a = 2/3, where the points 0, 1, -1, 2 and -2 that
are commonly used have 31 (5.3 for 5 taps, 5.8 and 9.8 for the 4 and the 2 of gradients): of 512
channels the error is 4e-6 of the results' size, and five times that, 2e-5, is not to be expected in
any element.

The range. The absolute sums of rows of B^T, G and A^T have a product below 65, so that no sum of
2^19 products exceeds float32 if values of both sides are below LIMIT = 2^48.
"""

from collections.abc import Sequence
from fractions import Fraction

from llvmlite import ir  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from opserve_kernels.algorithms.codegen.vectors import Value, Vectors
from opserve_kernels.algorithms.host import VARIANT

POINT = Fraction(2, 3)
_INVERSE = 1 / POINT
_SQUARE, _INVERSE_SQUARE = POINT**2, _INVERSE**2
_NORM = 2 * _SQUARE * (_SQUARE - _INVERSE_SQUARE)  # M_p(p) of POINT and its negative
_INVERSE_NORM = 2 * _INVERSE_SQUARE * (_INVERSE_SQUARE - _SQUARE)


class Transforms:
    """Emits the transforms along one dimension, for vectors of any meaning.

    Attributes:
        width: Lanes of the vectors.
    """

    def __init__(self, builder: Value, width: int) -> None:
        self._builder = builder
        self._lanes = Vectors(builder, width)
        self._type = self._lanes.zero().type

    def image(self, values: Sequence[Value]) -> list[Value]:
        """B^T times 6 values."""
        d0, d1, d2, d3, d4, d5 = values
        middle = -(_SQUARE + _INVERSE_SQUARE)
        # Rows of p and -p have the same even and odd parts, so each pair costs the parts once.
        near = self._pair(
            self._add_scaled(-_INVERSE_SQUARE, d2, d4),
            self._add_scaled(-_INVERSE_SQUARE, d1, d3),
            POINT,
        )
        far = self._pair(
            self._add_scaled(-_SQUARE, d2, d4), self._add_scaled(-_SQUARE, d1, d3), _INVERSE
        )
        first = self._add_scaled(middle, d2, self._lanes.add(d0, d4))
        last = self._add_scaled(middle, d3, self._lanes.add(d1, d5))
        return [first, *near, *far, last]

    def kernel(self, taps: Sequence[Value]) -> list[Value]:
        """G times 2 to 5 taps."""
        return [
            taps[0],
            *self._powers(taps, POINT, _NORM),
            *self._powers(taps, _INVERSE, _INVERSE_NORM),
            taps[-1],
        ]

    def results(self, products: Sequence[Value], count: int) -> list[Value]:
        """A^T times 6 products: 2 to 5 results, powers of the finite points and the last point."""
        p0, p1, p2, p3, p4, last = products
        # Sums and differences of p and -p: even powers take the sums, odd powers the differences.
        near = self._lanes.add(p1, p2), self._builder.fsub(p1, p2)
        far = self._lanes.add(p3, p4), self._builder.fsub(p3, p4)
        # The point at infinity adds to the highest power only.
        results = [self._lanes.add(p0, self._lanes.add(near[0], far[0]))]
        for power in range(1, count):
            nearer = self._scaled(POINT**power, near[power % 2])
            results.append(self._add_scaled(_INVERSE**power, far[power % 2], nearer))
        results[-1] = self._lanes.add(results[-1], last)
        return results

    def _powers(self, taps: Sequence[Value], point: Fraction, norm: Fraction) -> list[Value]:
        """Sums of taps * point^i / norm, and of the negative point."""
        even, odd = self._polynomial(taps[::2], point**2), self._polynomial(taps[1::2], point**2)
        return self._pair(self._scaled(1 / norm, even), odd, point / norm)

    def _polynomial(self, factors: Sequence[Value], x: Fraction) -> Value:
        """Sum of factors * x^i."""
        # Horner's scheme: one fused multiply-add for each factor.
        total = factors[-1]
        for factor in reversed(factors[:-1]):
            total = self._add_scaled(x, total, factor)
        return total

    def _pair(self, even: Value, odd: Value, factor: Fraction) -> list[Value]:
        """The sums even + factor * odd and even - factor * odd."""
        return [self._add_scaled(factor, odd, even), self._add_scaled(-factor, odd, even)]

    def _scaled(self, factor: Fraction, value: Value) -> Value:
        return self._builder.fmul(self._constant(factor), value)

    def _add_scaled(self, factor: Fraction, value: Value, total: Value) -> Value:
        # Without fused multiply-add the compiler would call a slow library function for it.
        if VARIANT.plain:
            return self._lanes.add(self._scaled(factor, value), total)
        return self._lanes.multiply_add(self._constant(factor), value, total)

    def _constant(self, factor: Fraction) -> Value:
        return ir.Constant(self._type, [float(factor)] * self._type.count)
