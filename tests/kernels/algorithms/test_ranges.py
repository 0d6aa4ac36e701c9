"""Operands whose range is too wide for transforms: direct sums stand in for Winograd's."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.algorithms.direct_cases import Case, Floats
from kernels.algorithms.forced import forced, transformed
from kernels.algorithms.winograd_runs import (
    IMAGE,
    OUTPUT,
    WEIGHT,
    Arrays,
    operands_of,
    plan,
)
from kernels.execution import ANY_PLAN, execute
from kernels.oracles import convolution_backward as oracle
from kernels.oracles.expectation import assert_meets
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Sample, Values
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.ranges.layout import CHUNK
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

CASE = Case(batch=3, inputs=20, outputs=24, size=(1, 17, 19))
every_result = pytest.mark.parametrize(
    "wanted", [IMAGE, WEIGHT, OUTPUT], ids=["image", "weight", "output"]
)


def _drawn(name: str, shape: tuple[int, ...]) -> Floats:
    generator = np.random.default_rng(7)
    normal = generator.standard_normal(shape).astype(np.float32)
    values: dict[str, NDArray[Any]] = {
        "normal": normal,
        "uniform": generator.uniform(-1, 1, shape),
        "integers": generator.integers(-3, 4, shape),
        "mostly zeros": normal * (generator.uniform(size=shape) < 0.05),
        "zeros": np.zeros(shape),
        "equal": np.full(shape, 1e-30),
        "Laplace": generator.laplace(size=shape),
        "a spike": np.where(np.arange(normal.size).reshape(shape) == 77, 1e7, 1.0),
        "a spike at the end": np.where(np.arange(normal.size).reshape(shape)[::-1] == 0, 1e7, 1.0),
        "a half of large ones": np.where(np.arange(shape[0]) % 2, 1e7, 1.0).reshape(
            -1, *[1] * (len(shape) - 1)
        )
        * normal,
        "subnormal beside a spike": np.where(
            np.arange(normal.size).reshape(shape) == 5, 1.0, 1e-40
        ),
        "one subnormal": np.where(np.arange(normal.size).reshape(shape) == 5, 1e-40, 1.0),
        "subnormal": normal * 1e-43,
        "a row": np.where(np.arange(shape[-2])[:, np.newaxis] == 1, 1e7, normal),
    }
    return np.ascontiguousarray(np.broadcast_to(values[name], shape), dtype=np.float32)


def _stands_in(arrays: Arrays, wanted: int, units: int | None = None) -> bool:
    buffers = [array.copy() for array in arrays]
    return plan(CASE, operands_of(CASE, arrays), wanted).execute(buffers, units=units)


def _arrays(name: str, where: int) -> Arrays:
    arrays = list(CASE.arrays(np.random.default_rng(3)))
    arrays[where] = _drawn(name, arrays[where].shape)
    return arrays[IMAGE], arrays[WEIGHT], arrays[OUTPUT]


@every_result
@pytest.mark.parametrize(
    "name", ["normal", "uniform", "integers", "mostly zeros", "zeros", "equal", "Laplace"]
)
def test_operands_of_like_size_are_transformed(name: str, wanted: int) -> None:
    for where in {IMAGE, WEIGHT, OUTPUT} - {wanted}:
        assert not _stands_in(_arrays(name, where), wanted)


@every_result
@pytest.mark.parametrize(
    "name",
    [
        "a spike",
        "a spike at the end",
        "a half of large ones",
        "subnormal beside a spike",
        "one subnormal",
        "subnormal",
        "a row",
    ],
)
def test_direct_sums_replace_transforms_where_the_range_of_an_operand_is_wide(
    name: str, wanted: int
) -> None:
    for where in {IMAGE, WEIGHT, OUTPUT} - {wanted}:
        assert _stands_in(_arrays(name, where), wanted)
        assert _stands_in(_arrays(name, where), wanted, units=1)


@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, -1])
def test_a_spike_is_found_in_every_chunk(place: int) -> None:
    arrays = CASE.arrays(np.random.default_rng(3))
    assert arrays[OUTPUT].size > CHUNK
    arrays[OUTPUT].reshape(-1)[place] = 1e4
    assert _stands_in(arrays, IMAGE)
    arrays[OUTPUT].reshape(-1)[place] = 1
    assert not _stands_in(arrays, IMAGE)


def test_a_magnitude_8_bits_above_the_mean_exponent_is_the_last_that_is_transformed() -> None:
    arrays = CASE.arrays(np.random.default_rng(3))
    arrays[OUTPUT][...] = 1
    arrays[OUTPUT].reshape(-1)[9] = 511
    arrays[OUTPUT].reshape(-1)[10] = 2.0**-8
    assert not _stands_in(arrays, IMAGE)
    arrays[OUTPUT].reshape(-1)[9] = 512
    assert _stands_in(arrays, IMAGE)


def test_an_element_below_2_to_minus_110_is_not_transformed() -> None:
    arrays = CASE.arrays(np.random.default_rng(3))
    arrays[OUTPUT][...], arrays[WEIGHT][...] = 1, 1
    arrays[OUTPUT].reshape(-1)[9] = 2.0**-110
    assert not _stands_in(arrays, IMAGE)
    arrays[OUTPUT].reshape(-1)[9] = -(2.0**-111)
    assert _stands_in(arrays, IMAGE)


@pytest.mark.parametrize(("output", "weight"), [(-58, -58), (-100, -16), (-16, -100)])
def test_elements_whose_product_may_be_below_2_to_minus_116_are_not_transformed(
    output: int, weight: int
) -> None:
    arrays = CASE.arrays(np.random.default_rng(3))
    arrays[OUTPUT][...], arrays[WEIGHT][...] = 2.0**output, 2.0**weight
    assert not _stands_in(arrays, IMAGE)
    arrays[OUTPUT].reshape(-1)[-1] /= 2
    assert _stands_in(arrays, IMAGE)
    assert _stands_in(arrays, IMAGE, units=1)


SCALES = [(1e-43, 1.0, 1e12), (1e-22, 1e-22, 1e-22), (1e-30, 1e12, 1e-5), (1.0, 1e-41, 1e20)]


@pytest.mark.parametrize("options", [ANY_PLAN, PlanOptions()], ids=["fast", "direct"])
@pytest.mark.parametrize("scales", SCALES)
def test_operands_of_any_size_leave_every_result_within_the_bound(
    scales: tuple[float, float, float], options: PlanOptions
) -> None:
    sample = _sample(DataType.FLOAT, Values.NORMAL)
    wanted = transformed(sample, options)
    buffers = sample.buffers()
    for name, scale in zip(("grad_output", "input", "weight"), scales, strict=True):
        sample.inputs[name].view(buffers[name])[...] *= np.float32(scale)
    execute(sample, buffers, options=options)
    expected = oracle.expected(sample, buffers, transformed=wanted)
    for output, expectation in expected.items():
        assert_meets(sample.outputs[output].view(buffers[output]), expectation)


def _sample(dtype: DataType, values: Values) -> Sample:
    dtypes: dict[str, Any] = {"padding": (1, 1), "dtypes": (dtype,) * 3, "values": values}
    return convolution(f"spike of {dtype}", (1, 64, 28, 28), (64, 64, 3, 3), **dtypes)


@pytest.mark.parametrize("name", ["grad_output", "input", "weight"])
@pytest.mark.parametrize(
    ("dtype", "spike"),
    [(DataType.FLOAT, 1e7), (DataType.FLOAT16, 2e4), (DataType.BF16, 1e6), (DataType.FLOAT, 300.0)],
)
def test_a_spike_leaves_every_result_within_the_bound_of_accuracy_fast(
    name: str, dtype: DataType, spike: float
) -> None:
    sample = _sample(dtype, Values.NORMAL)
    options = forced(sample, Algorithm.WINOGRAD)
    wanted = transformed(sample, options)
    assert wanted == ["grad_input", "grad_weight"]
    buffers = sample.buffers()
    sample.inputs[name].view(buffers[name]).reshape(-1)[1234] = spike
    execute(sample, buffers, options=options)
    expected = oracle.expected(sample, buffers, transformed=wanted)
    for output, expectation in expected.items():
        assert_meets(sample.outputs[output].view(buffers[output]), expectation)


def test_sums_of_576_beside_a_gradient_of_1e7_are_576_with_accuracy_fast() -> None:
    sample = _sample(DataType.FLOAT, Values.ONES)
    buffers = sample.buffers()
    sample.inputs["grad_output"].view(buffers["grad_output"])[0, 5, 13, 13] = 1e7
    execute(sample, buffers, options=ANY_PLAN)
    found = sample.outputs["grad_input"].view(buffers["grad_input"])[0]
    inner = found[:, 1:-1, 1:-1].copy()
    inner[:, 11:14, 11:14] = 576
    np.testing.assert_array_equal(inner, np.full_like(inner, 576))


def test_a_spike_in_one_call_does_not_stay_for_the_next() -> None:
    arrays = _arrays("a spike", OUTPUT)
    planned = plan(CASE, operands_of(CASE, arrays), IMAGE)
    assert planned.execute([array.copy() for array in arrays])
    ordinary = _arrays("normal", OUTPUT)
    assert not planned.execute([array.copy() for array in ordinary])
