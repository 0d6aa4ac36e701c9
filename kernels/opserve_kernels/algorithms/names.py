"""Names of the algorithms: those that a plan reports, and that a caller may request."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from opserve_kernels.errors import invalid_argument
from opserve_kernels.gradients import Product


class Algorithm(StrEnum):
    """The algorithm of a gradient."""

    REFERENCE = "reference"  # in float64, on the profile `reference`
    COLUMNS = "columns"
    COLUMNS_BY_ENTRY = "columns by entry"  # no block has columns of two entries of the batch
    DEPTHWISE = "depthwise"
    PACKED = "packed"
    FLAT = "flat"
    DOTS = "dots"
    OUTER = "outer"
    PAIRS = "pairs"  # PACKED, FLAT or OUTER on pairs of BF16 values
    WINOGRAD = "winograd"
    FOLD = "fold"
    PERMUTE = "permute"  # a fold whose kernel positions do not overlap


def named(product: Product, algorithm: Algorithm) -> str:
    """The name in reports: "image: packed"."""
    return f"{product}: {algorithm}"


def requested_algorithms(
    names: Iterable[str], possible: Mapping[Product, Sequence[Algorithm]]
) -> dict[Product, Algorithm]:
    """The algorithms that a caller requests, by gradient.

    Args:
        names: Names as `named` returns them, at most one of a gradient.
        possible: Algorithms that can compute each gradient of the call.

    Raises:
        InvalidArgument: Another algorithm is requested.
    """
    ways = {
        named(product, way): (product, way) for product in possible for way in possible[product]
    }
    found: dict[Product, Algorithm] = {}
    for name in names:
        if name not in ways or ways[name][0] in found:
            raise invalid_argument(
                "algorithms",
                given=", ".join(names),
                allowed=f"one of each gradient: {', '.join(ways) or 'of a call without any'}",
            )
        product, algorithm = ways[name]
        found[product] = algorithm
    return found
