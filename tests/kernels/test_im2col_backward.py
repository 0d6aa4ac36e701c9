"""aclnnIm2colBackward against the float64 oracle and the values that its rules imply."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.execution import execute, plan_of, results
from kernels.oracles.expectation import assert_meets
from kernels.oracles.im2col_backward import expected
from kernels.samples.im2col_backward import SAMPLES, image
from kernels.samples.sample import FILLER, NUMPY_DTYPES, Sample, Values

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


def test_vendors_sample_program_gives_its_derived_value() -> None:
    out = results(_BY_NAME["vendor's"])["out"]

    assert out.item() == np.float32(6.1) + np.float32(3.1)


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
