"""Inferred outputs of a call without any."""

from dataclasses import replace
from typing import Any

import pytest

from kernels.samples import REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType, Format, Tensor

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
_ALL = [sample for samples in REGISTRY_SAMPLES.values() for sample in samples]
_ALL_ERRORS = [sample for samples in REGISTRY_ERROR_SAMPLES.values() for sample in samples]


def _inferred(operator: str, arguments: Any) -> dict[str, Tensor]:
    bare = replace(arguments, **dict.fromkeys(OPERATORS[operator].outputs))
    return dict(OPERATORS[operator].infer_outputs(bare))


@pytest.mark.parametrize("sample", _ALL, ids=lambda sample: f"{sample.operator}: {sample.name}")
def test_inferred_outputs_have_the_shapes_of_the_sample_and_no_buffer(sample: Sample) -> None:
    inferred = _inferred(sample.operator, sample.arguments({"input": 3, "grad_output": 4}))
    outputs = OPERATORS[sample.operator].outputs
    mask = sample.scalars.get("output_mask", (True,) * len(outputs))

    assert list(inferred) == [name for name, asked in zip(outputs, mask, strict=True) if asked]
    for name, tensor in inferred.items():
        assert tensor.shape == sample.outputs[name].shape
        assert tensor.buffer == 0
        assert tensor.is_contiguous


@pytest.mark.parametrize(
    ("dtypes", "outs"),
    [
        ((FLOAT, FLOAT, FLOAT), (FLOAT, FLOAT, FLOAT)),
        ((FLOAT16, FLOAT16, FLOAT16), (FLOAT16, FLOAT16, FLOAT16)),
        ((BF16, FLOAT16, BF16), (FLOAT, BF16, BF16)),
        ((FLOAT16, FLOAT, BF16), (FLOAT, FLOAT, FLOAT16)),
        ((FLOAT16, DOUBLE, BF16), (DOUBLE, FLOAT, FLOAT16)),
    ],
)
def test_gradients_have_the_wider_dtype_of_grad_output_and_their_own(
    dtypes: tuple[DataType, ...], outs: tuple[DataType, ...]
) -> None:
    sample = convolution("dtypes", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=dtypes)

    inferred = _inferred(sample.operator, sample.arguments())

    names = ("grad_input", "grad_weight", "grad_bias")
    assert tuple(inferred[name].dtype for name in names) == outs
    assert tuple(inferred[name].format for name in names) == (Format.NCHW, Format.NCHW, Format.ND)


def test_only_the_gradients_of_the_mask_are_inferred() -> None:
    sample = convolution("mask", (2, 3, 6, 6), (4, 3, 3, 3), output_mask=(False, True, False))

    assert list(_inferred(sample.operator, sample.arguments())) == ["grad_weight"]


def test_outputs_that_were_given_are_not_inferred() -> None:
    sample = convolution("given", (2, 3, 6, 6), (4, 3, 3, 3))

    assert OPERATORS[sample.operator].infer_outputs(sample.arguments()) == {}


@pytest.mark.parametrize("error", _ALL_ERRORS, ids=lambda error: error.sample.name)
def test_malformed_arguments_are_inferred_from_without_an_error(error: ErrorSample) -> None:
    operator = error.sample.operator

    assert set(_inferred(operator, error.sample.arguments())) <= set(OPERATORS[operator].outputs)


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_is_inferred_from_nothing(operator: str) -> None:
    nothing: Any = OPERATORS[operator].schema()

    assert OPERATORS[operator].infer_outputs(nothing) == {}


@pytest.mark.parametrize("operator", ["convolution", "conv_depthwise2d"])
@pytest.mark.parametrize(("steps", "code"), [((), 161002), (None, 161001)])
def test_matrices_without_steps_are_refused_by_phase_one(
    operator: str, steps: tuple[int, ...] | None, code: int
) -> None:
    sample = REGISTRY_SAMPLES[operator][0]
    names = OPERATORS[operator].outputs
    images = {"convolution": "input", "conv_depthwise2d": "self"}
    matrices = dict.fromkeys((images[operator], "weight"), Tensor(shape=(2, 2), dtype=FLOAT))
    rows = dict.fromkeys(("stride", "padding", "dilation"), steps)
    bare = replace(sample.arguments(), **matrices, **rows, **dict.fromkeys(names))

    whole = replace(bare, **OPERATORS[operator].infer_outputs(bare))

    with pytest.raises(InvalidArgument) as refusal:
        OPERATORS[operator].plan(whole, PROFILES[sample.profile], PlanOptions())
    assert refusal.value.status.value == code


@pytest.mark.parametrize(
    "broken",
    [{"kernel_size": (2, 2, 2)}, {"kernel_size": (0, 2)}],
    ids=str,
)
def test_sizes_that_break_a_rule_imply_an_output_so_that_they_are_what_is_refused(
    broken: dict[str, tuple[int, ...]],
) -> None:
    operator = OPERATORS["im2col_backward"]
    sample = REGISTRY_SAMPLES["im2col_backward"][0]
    bare = replace(sample.arguments(), out=None, **broken)

    whole = replace(bare, **operator.infer_outputs(bare))

    with pytest.raises(InvalidArgument) as refusal:
        operator.plan(whole, PROFILES[sample.profile], PlanOptions())
    assert refusal.value.parameter == next(iter(broken))
