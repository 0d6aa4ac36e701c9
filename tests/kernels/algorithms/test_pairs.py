"""Products of BF16 values in pairs: their order of additions, and what is left to float32."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.algorithms.forced import forced, in_bfloat
from kernels.execution import execute, plan_of
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample
from opserve_kernels.algorithms.codegen.pairs import (
    join_rows,
    multiply_flat_pairs,
    multiply_packed_pairs,
    suit_pairs,
)
from opserve_kernels.algorithms.host import (
    LANES,
    TILE_COLUMNS,
    TILE_ROWS,
    TILE_VECTORS,
    whole_rows,
)
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

Floats = NDArray[np.float32]
WIDE = in_bfloat(convolution("wide", (2, 33, 9, 9), (40, 33, 3, 3), padding=(1, 1)))
ODD_DEPTH = 7


def bfloats(*shape: int) -> Floats:
    random = np.random.default_rng(5)
    return random.standard_normal(shape).astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.pairs
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("rows", sorted({1, TILE_ROWS // 4, TILE_ROWS // 2, TILE_ROWS}))
@pytest.mark.parametrize("vectors", range(1, TILE_VECTORS + 1))
def test_values_of_a_pair_are_added_one_after_the_other(
    rows: int, vectors: int, *, flat: bool
) -> None:
    depth, columns = ODD_DEPTH, vectors * LANES
    left, right = bfloats(depth, TILE_ROWS), bfloats(depth, TILE_COLUMNS)
    words, offsets = -(-depth // 2), 4096
    memory = np.zeros(2 * offsets, np.float32)
    places = 0, depth * TILE_ROWS, offsets // 2
    memory[: left.size] = left.ravel()
    memory[places[1] : places[1] + right.size] = right.ravel()
    join_rows(memory, places[0], TILE_ROWS, 0, depth)
    join_rows(memory, places[1], TILE_COLUMNS, 0, depth)
    table = memory.view(np.int32)
    table[offsets : offsets + words] = np.arange(words) * TILE_COLUMNS
    if flat:
        flat_numbers = (words, places[0], places[1], offsets, places[2], TILE_COLUMNS, 0)
        multiply_flat_pairs(memory, table, flat_numbers, rows, vectors)
    else:
        multiply_packed_pairs(
            memory, (words, places[0], places[1], places[2], TILE_COLUMNS, 0), rows, vectors
        )
    expected = np.zeros((TILE_ROWS, TILE_COLUMNS), np.float32)
    for factors, values in zip(left, right, strict=True):
        expected += np.outer(factors, values)  # products of BF16 are exact in float32
    found = memory[places[2] :][: TILE_ROWS * TILE_COLUMNS].reshape(TILE_ROWS, TILE_COLUMNS)
    np.testing.assert_array_equal(found[:rows, :columns], expected[:rows, :columns])
    assert not found[whole_rows(rows) :].any()


@pytest.mark.parametrize(
    ("value", "suits"),
    [
        *((value, True) for value in (0.0, -0.0, 1.0, 2.0**-56, -(2.0**-56), 1.99 * 2.0**55)),
        *((value, False) for value in (2.0**56, 1.99 * 2.0**-57, -(2.0**-130), np.inf, np.nan)),
    ],
)
def test_values_suit_pairs_where_nothing_can_be_flushed_or_overflow(
    value: float, *, suits: bool
) -> None:
    values = np.ones(37, np.float32)
    values[21] = value
    assert suit_pairs(values) == suits


@pytest.mark.pairs
def test_sums_keep_the_least_number_that_pairs_can_make() -> None:
    """(1 + 2^-7)^2 - (1 + 2^-6) = 2^-14, with factors of 2^-56 each: the least normal number."""
    step, tiny = 2.0**-7, 2.0**-56
    sample = in_bfloat(convolution("least", (1, 3, 1, 4), (2, 3, 1, 1)))
    buffers = sample.buffers()
    factors = {"grad_output": (1 + step, 1 + 2 * step), "weight": (1 + step, -1)}
    for name, values in factors.items():
        tensor = sample.inputs[name].view(buffers[name])
        tensor.reshape(2, -1)[...] = np.array(values)[:, None] * tiny
    execute(sample, buffers, options=forced(sample, Algorithm.PAIRS))
    assert np.all(sample.outputs["grad_input"].view(buffers["grad_input"]) == 2.0**-126)


@pytest.mark.pairs
@pytest.mark.parametrize("operand", ["grad_output", "input", "weight"])
@pytest.mark.parametrize("value", [2.0**-130, 2.0**60])
def test_values_out_of_range_are_left_to_float32(operand: str, value: float) -> None:
    found: list[dict[str, NDArray[np.uint8]]] = []
    for algorithms in (forced(WIDE, Algorithm.PAIRS).algorithms, ("image: flat", "weight: outer")):
        buffers = WIDE.buffers()
        WIDE.inputs[operand].view(buffers[operand])[-1, -1, -1, -1] = value
        execute(WIDE, buffers, options=PlanOptions(algorithms=algorithms))
        found.append(buffers)
    pairs, direct = found
    changed = {"grad_output": WIDE.outputs, "input": ["grad_weight"], "weight": ["grad_input"]}
    for name in changed[operand]:
        np.testing.assert_array_equal(pairs[name], direct[name], name)


def algorithms_of(sample: Sample, options: PlanOptions) -> set[str]:
    return {way.partition(": ")[2] for way in plan_of(sample, options).algorithms}


@pytest.mark.pairs
def test_pairs_are_for_bf16_alone() -> None:
    assert algorithms_of(WIDE, PlanOptions()) == {"pairs"}
    halves = {name: replace(tensor, dtype=DataType.FLOAT16) for name, tensor in WIDE.inputs.items()}
    for name, tensor in WIDE.outputs.items():
        halves[name] = replace(tensor, dtype=DataType.FLOAT16)
    assert "pairs" not in algorithms_of(WIDE.but("halves", **halves), PlanOptions())


def test_batch_consistent_results_have_no_pairs() -> None:
    """A value of one entry of the batch would change the order of additions of all others."""
    plan = plan_of(WIDE, PlanOptions(batch_consistent=True))
    assert "image: pairs" not in plan.algorithms
