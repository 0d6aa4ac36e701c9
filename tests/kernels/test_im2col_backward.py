"""aclnnIm2colBackward against the float64 oracle and the values that its rules imply."""

from dataclasses import replace
from importlib import import_module
from math import prod

import numpy as np
import pytest

from kernels.execution import execute, plan_of, results
from kernels.oracles.expectation import assert_meets, assert_meets_exactly
from kernels.oracles.im2col_backward import expected, gradients, magnitude
from kernels.samples.im2col_backward import SAMPLES, image
from kernels.samples.sample import FILLER, NUMPY_DTYPES, Bytes, Sample, Values
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

PROFILES = tuple(OPERATORS["im2col_backward"].support)
_BY_NAME = {sample.name: sample for sample in SAMPLES}


def _of_integers(sample: Sample) -> Sample:
    columns = replace(sample.inputs["grad_output"], values=Values.INTEGERS)
    return sample.but(sample.name, grad_output=columns)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_image_is_within_the_bound_of_its_sums(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


@pytest.mark.parametrize(
    "sample", [_of_integers(sample) for sample in SAMPLES], ids=lambda sample: sample.name
)
def test_image_of_small_integers_is_exact(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        tensor = sample.outputs[name]
        exact = expectation.value.astype(NUMPY_DTYPES[tensor.dtype])
        np.testing.assert_array_equal(tensor.view(buffers[name]), exact)


@pytest.mark.parametrize("profile", PROFILES)
def test_vendors_sample_program_computes_its_derived_value(profile: str) -> None:
    out = results(replace(_BY_NAME["vendor's"], profile=profile))["out"]

    assert out.item() == np.float32(6.1) + np.float32(3.1)
    assert out.item() == np.float32(9.2)


@pytest.mark.parametrize("name", ["no entries", "no channels"])
def test_empty_columns_need_nothing_and_leave_the_image_as_it_was(name: str) -> None:
    plan = plan_of(_BY_NAME[name])

    assert (plan.workspace_size, plan.units) == (0, 0)


def test_pixels_that_no_block_covers_are_zero() -> None:
    out = results(_BY_NAME["stride leaves a rest"])["out"]

    assert np.all(out[:, :, 2:4] == 0)
    assert np.all(out[:, :, 6:] == 0)


def test_a_pixel_sums_output_rows_then_columns_in_ascending_order() -> None:
    sample = image("order", (1, 2, 2), (2, 2), padding=(1, 1))
    buffers = sample.buffers()
    columns = sample.inputs["grad_output"].view(buffers["grad_output"]).reshape(2, 2, 3, 3)
    generator = np.random.default_rng(7)
    columns[...] = generator.standard_normal(columns.shape).astype(np.float32) * 1e3

    execute(sample, buffers)

    out = sample.outputs["out"].view(buffers["out"])
    for h in range(2):
        for w in range(2):
            total = np.float32(0)
            for i in (h, h + 1):
                for j in (w, w + 1):
                    total += columns[h + 1 - i, w + 1 - j, i, j]
            assert out[0, h, w] == total


def test_filler_is_left_in_an_image_that_is_not_written() -> None:
    sample = _BY_NAME["no entries"]
    buffers = sample.buffers()

    execute(sample, buffers)

    assert np.all(buffers["out"] == FILLER)


def _columns_of(sample: Sample, values: list[float]) -> dict[str, Bytes]:
    """Device memory with these columns."""
    buffers = sample.buffers()
    sample.inputs["grad_output"].view(buffers["grad_output"]).reshape(-1)[:] = values
    return buffers


def test_sums_are_rounded_to_the_columns_dtype_and_then_cast() -> None:
    sample = image(
        "cast", (1, 1, 1), (1, 2), padding=(0, 1), dtypes=(DataType.BF16, DataType.FLOAT)
    )
    values = [0, 1, 2.0**-9 + 2.0**-16, 0]
    device = _columns_of(sample, values)
    exact = _columns_of(replace(sample, profile="reference"), values)

    execute(sample, device)
    execute(replace(sample, profile="reference"), exact)

    assert sample.outputs["out"].view(device["out"]).item() == 1
    assert sample.outputs["out"].view(exact["out"]).item() == 1 + 2.0**-9 + 2.0**-16


@pytest.mark.parametrize(
    ("profile", "expected_"), [("ascend910b", np.inf), ("ascend910", 65504), ("reference", np.inf)]
)
def test_values_beyond_float16_are_infinite_or_its_greatest_value(
    profile: str, expected_: float
) -> None:
    dtypes = (DataType.FLOAT16, DataType.FLOAT16)
    sample = image("beyond", (1, 1, 1), (1, 2), padding=(0, 1), dtypes=dtypes, profile=profile)
    buffers = _columns_of(sample, [0, 60000, 60000, 0])

    execute(sample, buffers)

    assert sample.outputs["out"].view(buffers["out"]).item() == expected_


_ON_REFERENCE = [
    replace(sample, profile="reference")
    for sample in SAMPLES
    if 0 not in sample.inputs["grad_output"].shape
]


@pytest.mark.parametrize("sample", _ON_REFERENCE, ids=lambda sample: sample.name)
def test_image_on_reference_is_a_float64_sum_rounded_once(
    monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    buffers, cut = sample.buffers(), sample.buffers()
    columns = sample.logical(buffers)["grad_output"].astype(np.float64)
    batched = columns.reshape(-1, *columns.shape[-2:])
    out = sample.outputs["out"]

    execute(sample, buffers)
    monkeypatch.setattr(
        import_module("opserve_kernels.operators.im2col_backward.plan"), "_REFERENCE_TAPS", 30
    )
    execute(sample, cut, units=2)

    np.testing.assert_array_equal(cut["out"], buffers["out"])
    with np.errstate(invalid="ignore"):
        value = gradients(batched, sample.scalars).reshape(out.shape)
        size = magnitude(batched, sample.scalars).reshape(out.shape)
    terms = prod(sample.scalars["kernel_size"])
    actual = out.view(buffers["out"])
    assert_meets_exactly(actual, value, size, terms=terms, dtype=out.dtype)


def test_a_refused_dtype_names_the_profiles_that_have_it() -> None:
    sample = image("dtypes", (3, 6, 7), (3, 2), dtypes=(DataType.BF16, DataType.FLOAT))

    with pytest.raises(InvalidArgument) as refusal:
        plan_of(replace(sample, profile="ascend910"))

    assert (
        refusal.value.allowed == "dtypes FLOAT, FLOAT16 on ascend910; BF16 on ascend910b, reference"
    )


@pytest.mark.parametrize(
    "parameter", ["input_size", "kernel_size", "dilation", "stride", "padding"]
)
def test_a_value_one_below_its_least_is_refused_and_the_least_is_not(parameter: str) -> None:
    limits = {limit.parameter: limit.least for limit in OPERATORS["im2col_backward"].limits}
    least = limits[parameter]
    sample = image("least", (1, 1, 1), (1, 1), padding=(0, 0))
    size = least - 1 if parameter == "input_size" else 1
    columns = replace(sample.inputs["grad_output"], shape=(1, 1))
    below = sample.but(
        "below",
        **{parameter: (least - 1, 1 if least else 0)},
        grad_output=columns,
        out=replace(sample.outputs["out"], shape=(1, size, 1)),
    )
    if parameter == "input_size":
        below = below.but("below", padding=(1, 0), grad_output=replace(columns, shape=(1, 2)))

    assert sample.scalars[parameter][0] == least
    assert plan_of(sample).units == 1
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(below)
    assert refusal.value.parameter == parameter
