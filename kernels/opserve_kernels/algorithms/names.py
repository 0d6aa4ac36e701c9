"""The algorithms by their names: what a plan tells, and what a caller may ask for."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from opserve_kernels.errors import invalid_argument
from opserve_kernels.gradients import Product


class Algorithm(StrEnum):
    """How a gradient is computed."""

    EXACT = "exact"  # in float64, on `reference`
    COLUMNS = "columns"
    COLUMNS_BY_ENTRY = "columns by entry"  # of the batch: no block has columns of two
    DEPTHWISE = "depthwise"
    PACKED = "packed"
    FLAT = "flat"
    DOTS = "dots"
    OUTER = "outer"
    WINOGRAD = "winograd"
    FOLD = "fold"
    PERMUTE = "permute"  # a fold of blocks that lie side by side


def named(product: Product, algorithm: Algorithm) -> str:
    """As people read it: "image: packed"."""
    return f"{product}: {algorithm}"


def asked_for(
    names: Iterable[str], possible: Mapping[Product, Sequence[Algorithm]]
) -> dict[Product, Algorithm]:
    """What a caller asked for, by gradient.

    Args:
        names: As `named` has them, one of a gradient at most.
        possible: What can compute each gradient of the call.

    Raises:
        InvalidArgument: Something else is asked for.
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
