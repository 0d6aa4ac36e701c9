"""Which calls are computed by Winograd's algorithm, and how exactly, by operator."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.algorithms.direct_cases import Case
from kernels.algorithms.forced import assert_within_the_bound, forced, transformed
from kernels.execution import ANY_PLAN, plan_of, results
from kernels.oracles import convolution_backward as oracle
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample, Values
from opserve_kernels import gradient_choice
from opserve_kernels.algorithms.host import LANES, TILE_COLUMNS
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.winograd.cost import direct_cost, transformed_cost
from opserve_kernels.algorithms.winograd.tiling import TileBlocks, Tiling
from opserve_kernels.gradients import Product
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

HALF, BF16 = DataType.FLOAT16, DataType.BF16
ORDINARY = convolution("many channels", (2, 64, 28, 28), (64, 64, 3, 3), padding=(1, 1))
OTHERS = [
    convolution("narrow", (2, 33, 9, 8), (17, 33, 3, 3), padding=(1, 1)),
    convolution("one pixel", (1, 5, 1, 1), (3, 5, 3, 3), padding=(1, 1)),
    convolution("far padding", (1, 5, 2, 3), (9, 5, 3, 3), padding=(5, 4)),
    convolution("dilated", (1, 9, 11, 12), (9, 9, 3, 3), padding=(2, 3), dilation=(2, 3)),
    convolution("groups", (2, 12, 6, 7), (9, 4, 3, 3), padding=(1, 1), groups=3),
    convolution("turned", (2, 9, 6, 7), (9, 5, 3, 3), padding=(1, 1), transposed=True),
    convolution("5x5", (2, 17, 9, 8), (9, 17, 5, 5), padding=(2, 2)),
    convolution("5x5 turned", (2, 9, 6, 7), (9, 5, 5, 5), padding=(3, 1), transposed=True),
    convolution("1-D", (2, 17, 30), (9, 17, 3), padding=(1,)),
    convolution("1-D dilated", (2, 9, 31), (9, 9, 3), padding=(3,), dilation=(4,)),
    convolution("1-D groups", (2, 12, 30), (9, 4, 3), padding=(2,), groups=3),
    convolution("halves", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), dtypes=(HALF,) * 3),
    convolution("bf16", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), dtypes=(BF16,) * 3),
    convolution("hf32", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), cube_math_type=3),
    convolution("large", (2, 9, 6, 7), (9, 9, 3, 3), dtypes=(HALF,) * 3, values=Values.LARGE),
    convolution("special", (2, 9, 6, 7), (9, 9, 3, 3), padding=(1, 1), values=Values.SPECIAL),
]


@pytest.mark.parametrize("sample", [ORDINARY, *OTHERS], ids=lambda sample: sample.name)
def test_every_requested_output_is_within_its_bound(sample: Sample) -> None:
    options = forced(sample, Algorithm.WINOGRAD)
    assert transformed(sample, options) == ["grad_input", "grad_weight"]
    assert_within_the_bound(sample, options)


def test_many_channels_are_computed_by_it_within_its_bound() -> None:
    assert transformed(ORDINARY, ANY_PLAN) == ["grad_input", "grad_weight"]
    assert_within_the_bound(ORDINARY, ANY_PLAN)


def test_plans_are_within_the_bound_of_direct_algorithms_by_default() -> None:
    assert transformed(ORDINARY, PlanOptions()) == []
    assert_within_the_bound(ORDINARY, PlanOptions())


@pytest.mark.parametrize("name", ["grad_input", "grad_weight"])
def test_sums_of_ones_over_64_channels_are_exact_integers_by_default(name: str) -> None:
    around: dict[str, Any] = {"padding": (1, 1), "values": Values.ONES}
    ones = convolution("ones", (1, 64, 32, 32), (64, 64, 3, 3), **around)
    value = oracle.expected(ones, ones.buffers())[name].value
    np.testing.assert_array_equal(results(ones, options=PlanOptions())[name], value)


def test_a_limit_of_the_workspace_is_kept_by_a_direct_algorithm() -> None:
    limit = plan_of(ORDINARY).workspace_size - 1
    smaller = plan_of(ORDINARY, replace(ANY_PLAN, workspace_limit=limit))
    assert smaller.workspace_size <= limit
    assert smaller.algorithms == plan_of(ORDINARY, PlanOptions()).algorithms


@pytest.mark.parametrize(("direct", "names"), [(1.101, []), (1.2, ["grad_input", "grad_weight"])])
def test_of_algorithms_about_as_fast_the_one_with_the_smaller_workspace_is_taken(
    monkeypatch: pytest.MonkeyPatch, direct: float, names: list[str]
) -> None:
    forced_size = plan_of(ORDINARY, forced(ORDINARY, Algorithm.WINOGRAD)).workspace_size
    assert plan_of(ORDINARY, PlanOptions()).workspace_size < forced_size
    for name, cost in (("direct_cost", direct), ("transformed_cost", 1.0)):
        monkeypatch.setattr(gradient_choice, name, Mock(return_value=cost))
    assert transformed(ORDINARY, ANY_PLAN) == names


@pytest.mark.parametrize(
    ("weight", "changes"),
    [
        ((64, 1, 3, 3), {"groups": 64}),
        ((64, 64, 3, 3), {"stride": (2, 2)}),
        ((64, 64, 1, 1), {}),
        ((4, 64, 3, 3), {}),
    ],
)
def test_calls_of_other_algorithms_are_left_to_them(
    weight: tuple[int, ...], changes: dict[str, Any]
) -> None:
    sample = convolution("other", (2, 64, 28, 28), weight, **changes)
    assert not transformed(sample, ANY_PLAN)


def pays(product: Product, case: Case) -> bool:
    """Whether it is faster than a direct algorithm."""
    return transformed_cost(product, case.convolution) < direct_cost(product, case.convolution)


@pytest.mark.parametrize(
    ("case", "wins"),
    [
        (Case(batch=4, inputs=64, outputs=64, size=(1, 56, 56)), True),
        (Case(batch=4, inputs=256, outputs=256, size=(1, 14, 14)), True),
        (Case(batch=16, inputs=512, outputs=512, size=(1, 7, 7)), True),
        (Case(batch=4, inputs=3, outputs=4, size=(1, 112, 112)), False),
        (Case(inputs=512, outputs=512, size=(1, 4, 4)), False),
        (
            Case(
                batch=4,
                inputs=64,
                outputs=64,
                size=(1, 9, 9),
                padding=(0, 6, 6),
                dilation=(1, 6, 6),
            ),
            False,
        ),
    ],
)
def test_it_costs_less_than_a_direct_algorithm_for_many_channels_and_tiles(
    case: Case,
    wins: bool,
) -> None:
    for product in Product:
        assert pays(product, case) == wins


def test_products_in_padding_count_for_the_image_only_as_no_weight_multiplies_them() -> None:
    padded = (0, 12, 12)
    case = Case(inputs=512, outputs=256, size=(1, 33, 33), padding=padded, dilation=(1, 12, 12))

    assert pays(Product.IMAGE, case)
    assert not pays(Product.WEIGHT, case)


@given(batch=st.integers(1, 400), entry=st.integers(1, 60), most=st.integers(24, 4000))
def test_blocks_of_entries_cost_no_more_than_any_others(batch: int, entry: int, most: int) -> None:
    def vectors(tiles: int) -> float:
        return -(-tiles // LANES) + 0.5 * -(-tiles // TILE_COLUMNS)

    def cost(part: int) -> float:
        return batch // part * vectors(part * entry) + vectors(batch % part * entry)

    tiling = Tiling(batch=batch, kernel=(3, 3), dilation=(1, 1), down=1, across=entry)
    parts = range(1, min(batch, max(1, most // entry)) + 1)
    assert TileBlocks.of(tiling, most).batch == max(parts, key=lambda part: (-cost(part), part))
