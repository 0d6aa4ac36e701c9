"""Costs by which calls are cut: they grow with all that is multiplied and moved."""

from typing import Any

import pytest

from opserve_kernels.algorithms.correlation.layout import GATHER
from opserve_kernels.algorithms.correlation.plan import Correlation
from opserve_kernels.algorithms.direct.cost import weight_costs
from opserve_kernels.algorithms.host import LANES, TILE_ROWS
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.winograd.cost import MULTIPLY_ADD, transformed_cost
from opserve_kernels.algorithms.winograd.tiling import Tiling
from opserve_kernels.convolution import Convolution
from opserve_kernels.costs import _direct_cost
from opserve_kernels.gradients import Operand, Product
from opserve_kernels.number_formats import FLOAT
from opserve_kernels.shares import _divided, _Division
from opserve_kernels.tensor import DataType

ONE: tuple[int, int, int] = (1, 1, 1)


def convolution(
    *, groups: int = 1, inputs: int = LANES, outputs: int = LANES, edge: int = 12, taps: int = 3
) -> Convolution:
    """Channels are those of a group; the output is as large as the image."""
    size, kernel = (1, edge, edge), (1, taps, taps)
    around = (0, taps // 2, taps // 2)
    return Convolution(
        batch=1,
        groups=groups,
        input_channels=inputs,
        output_channels=outputs,
        input_size=size,
        output_size=size,
        kernel_size=kernel,
        stride=ONE,
        padding=around,
        dilation=ONE,
    )


def plane(channels: int, positions: int) -> Operand:
    """A tensor of channels and positions."""
    parts = (((channels, positions),), ((1, 0), (1, 0), (1, 0), (positions, 1)))
    return Operand(place=0, dtype=DataType.FLOAT, parts=parts, number_format=FLOAT)


@pytest.mark.parametrize("product", Product)
@pytest.mark.parametrize("cost", [_direct_cost, transformed_cost])
def test_each_group_costs_the_same(product: Product, cost: Any) -> None:
    alone = cost(product, convolution())
    assert cost(product, convolution(groups=3)) == pytest.approx(3 * alone)


@pytest.mark.parametrize("product", Product)
@pytest.mark.parametrize(("edge", "taps", "met"), [(64, 1, 1.0), (3, 3, 0.5)])
@pytest.mark.parametrize("channels", [TILE_ROWS, 32 * TILE_ROWS])
def test_a_direct_product_costs_no_less_than_what_it_multiplies_and_moves(
    product: Product, edge: int, taps: int, met: float, channels: int
) -> None:
    one = convolution(edge=edge, taps=taps, inputs=channels, outputs=channels)
    weights = channels**2 * taps**2
    multiplied, moved = met * weights * edge**2, 2 * channels * edge**2
    least = MULTIPLY_ADD * multiplied + 1.0 * moved + 2.2 * weights
    assert _direct_cost(product, one) >= least


def test_a_transformed_weight_costs_what_its_page_states() -> None:
    """At each point: products, tiles that are read for every channel, kernels that are written."""
    channels = LANES * TILE_ROWS
    one = convolution(edge=12, inputs=channels, outputs=channels)
    tiling = Tiling.of(one, one.output_size)
    read, kernels = tiling.tiles * 2 * channels, channels**2
    at_point = MULTIPLY_ADD * tiling.tiles * channels**2 + 0.55 * read + 0.3 * kernels
    cost = transformed_cost(Product.WEIGHT, one)
    measured = 0.3 * (one.image_elements + one.output_elements)
    assert cost == pytest.approx(2.0 * read + tiling.points * at_point + measured)


def test_the_longest_part_runs_first_so_that_shares_end_together() -> None:
    product: Any = None  # what is cut does not matter here
    ways = [
        _Division(product=product, cut=None, bounds=[(0, 1)], cost=cost) for cost in (1.0, 1.0, 2.0)
    ]
    _, shares = _divided(ways, 2)
    assert [sum(way.cost for way, _ in share) for share in shares] == [2.0, 2.0]


@pytest.mark.parametrize("channels", [TILE_ROWS, LANES, 2 * LANES, 3 * LANES])
def test_products_of_pairs_cost_less_than_those_of_single_values(channels: int) -> None:
    one = convolution(inputs=channels, outputs=channels, edge=56)
    product = Correlation(
        direction=GATHER,
        convolution=one,
        source=plane(channels, one.input_pixels),
        weight=plane(channels, channels * one.taps),
        result=plane(channels, one.output_pixels),
    )
    costs = weight_costs(product, pairs=True)
    assert costs[Algorithm.PAIRS] < 0.95 * costs[Algorithm.OUTER]
