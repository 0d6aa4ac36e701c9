"""The float64 path of `reference` against the float64 oracle, with at most one rounding."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import opserve_kernels
from kernels.execution import execute, results
from kernels.oracles.convolution_backward import geometry_of, gradients, magnitude
from kernels.oracles.expectation import Doubles, assert_meets_exactly
from kernels.oracles.rounding import round_to, round_to_hf32
from kernels.samples.convolution_backward import SAMPLES, convolution
from kernels.samples.sample import NUMPY_DTYPES, Array, Bytes, Sample, Values
from opserve_kernels import reference_plan
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Diagonal, Gradients, Operand
from opserve_kernels.number_formats import DOUBLE, FLOAT16_SATURATED
from opserve_kernels.reference_loops import run
from opserve_kernels.tensor import DataType

_NAMES = ("grad_input", "grad_weight", "grad_bias")
_SHARED = (  # what calls are made of, and the rounding of operands: no loop
    *("convolution", "copy_stages", "gradients", "loops", "number_formats", "operator"),
    *("precision", "records", "stages", "views", "workspace", "operators.im2col_backward.plan"),
    *("algorithms.names", "algorithms.fold.layout"),
)
_USE_FP16 = 2
_HF32_TYPES = (1, 3)


def _on_reference(sample: Sample) -> Sample:
    return replace(sample, profile="reference")


_SAMPLES = [
    _on_reference(sample) for sample in SAMPLES if sample.inputs["input"].shape.count(0) == 0
]
every_sample = pytest.mark.parametrize("sample", _SAMPLES, ids=lambda sample: sample.name)


def _operand(array: Doubles, sample: Sample) -> Doubles:
    """As the products read it."""
    dtypes = {tensor.dtype for tensor in sample.inputs.values()}
    if sample.scalars["cube_math_type"] == _USE_FP16:
        return round_to(array, DataType.FLOAT16)
    in_floats = DataType.DOUBLE not in dtypes and (len(dtypes) > 1 or DataType.FLOAT in dtypes)
    if sample.scalars["cube_math_type"] in _HF32_TYPES and in_floats:
        return round_to_hf32(array)
    return array


def _terms(sample: Sample) -> dict[str, int]:
    """No fewer products than a sum of each gradient has."""
    shapes = {name: tensor.shape for name, tensor in sample.inputs.items()}
    pixels = max(prod(shapes[name][2:]) for name in ("input", "grad_output"))
    weight = prod(shapes["weight"])
    batch = shapes["input"][0]
    return dict(zip(_NAMES, (weight, batch * pixels, batch * pixels), strict=True))


def _sums(given: Mapping[str, Doubles], sample: Sample) -> dict[str, tuple[Doubles, Doubles]]:
    """Value and magnitude of each gradient."""
    dy, x, w = (_operand(given[name], sample) for name in ("grad_output", "input", "weight"))
    axes = (0, *range(2, given["grad_output"].ndim))
    geometry = geometry_of(sample.scalars)
    with np.errstate(invalid="ignore"):
        value, size = gradients(dy, x, w, geometry), magnitude(dy, x, w, geometry)
        bias = given["grad_output"].sum(axis=axes)
        bias_size = np.abs(given["grad_output"]).sum(axis=axes)
    return {
        "grad_input": (value.grad_input, size.grad_input),
        "grad_weight": (value.grad_weight, size.grad_weight),
        "grad_bias": (bias, bias_size),
    }


def _assert_meets_oracle(sample: Sample, buffers: Mapping[str, Bytes]) -> None:
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    found, terms = _sums(given, sample), _terms(sample)
    for name, wanted in zip(_NAMES, sample.scalars["output_mask"], strict=True):
        if wanted:
            tensor = sample.outputs[name]
            actual = tensor.view(buffers[name])
            value, size = found[name]
            assert_meets_exactly(actual, value, size, terms=terms[name], dtype=tensor.dtype)


@every_sample
def test_gradients_are_float64_sums_rounded_once(sample: Sample) -> None:
    buffers = sample.buffers()

    execute(sample, buffers)

    _assert_meets_oracle(sample, buffers)


@every_sample
@pytest.mark.parametrize("products", [1, 40])
def test_work_units_of_any_size_compute_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, sample: Sample, products: int
) -> None:
    whole, cut = sample.buffers(), sample.buffers()
    execute(sample, whole)

    monkeypatch.setattr(reference_plan, "_PRODUCTS", products)
    monkeypatch.setattr(reference_plan, "_COPY_ELEMENTS", 7)
    execute(sample, cut, units=3)

    for name, buffer in whole.items():
        np.testing.assert_array_equal(cut[name], buffer, name)


def test_a_sum_longer_than_a_work_unit_is_whole() -> None:
    sample = _on_reference(
        convolution("long", (1, 1, 1100, 1000), (1, 1, 1, 1), values=Values.ONES)
    )

    gradients_ = results(sample)

    assert gradients_["grad_weight"].item() == 1_100_000
    assert gradients_["grad_bias"].item() == 1_100_000


def test_sums_are_those_of_float64_where_float32_loses_them() -> None:
    sample = _on_reference(convolution("lost", (1, 1, 1, 3), (1, 1, 1, 1)))
    buffers = sample.buffers()
    sample.inputs["input"].view(buffers["input"])[...] = 1
    sample.inputs["grad_output"].view(buffers["grad_output"]).reshape(-1)[:] = (
        2.0**40,
        1,
        -(2.0**40),
    )

    execute(sample, buffers)

    for name in ("grad_weight", "grad_bias"):
        assert sample.outputs[name].view(buffers[name]).item() == 1


def test_infinite_grad_output_leaves_finite_the_taps_on_padding() -> None:
    sample = _on_reference(convolution("inf", (1, 1, 4, 4), (1, 1, 3, 3), padding=(1, 1)))
    buffers = sample.buffers()
    sample.inputs["input"].view(buffers["input"])[...] = 1
    sample.inputs["grad_output"].view(buffers["grad_output"])[0, 0, 0, 0] = np.inf

    execute(sample, buffers)

    grad_weight: Array = sample.outputs["grad_weight"].view(buffers["grad_weight"])[0, 0]
    assert np.all(np.isposinf(grad_weight[1:, 1:]))
    assert np.all(np.isfinite(grad_weight[0]))
    assert np.all(np.isfinite(grad_weight[:, 0]))


def _operand_of(
    place: int, array: NDArray[np.generic], channels: int, **changes: object
) -> Operand:
    """A contiguous image (channels, positions) or row of `channels` values."""
    dtypes = {dtype: name for name, dtype in NUMPY_DTYPES.items()}
    positions = array.size // channels
    operand = Operand(
        place=place,
        dtype=dtypes[array.dtype],
        parts=(((channels, positions),), ((positions, 1),)),
        number_format=DOUBLE,
    )
    return replace(operand, **changes)  # type: ignore[arg-type]


def _weight_of(place: int) -> Operand:
    """A contiguous weight of _POINTS."""
    parts = (((2, 16),), ((4, 4),), ((4, 1),), ())
    return Operand(place=place, dtype=DataType.DOUBLE, parts=parts, number_format=DOUBLE)


_POINTS = Convolution(
    batch=1,
    groups=2,
    input_channels=4,
    output_channels=4,
    input_size=(1, 1, 3),
    output_size=(1, 1, 3),
    kernel_size=(1, 1, 1),
    stride=(1, 1, 1),
    padding=(0, 0, 0),
    dilation=(1, 1, 1),
)
"""Two superblocks of 4 channels each, kernels of one tap."""


def _run(gradients_: Gradients, tensors: list[NDArray[np.generic]]) -> None:
    plan = reference_plan.plan_reference(gradients_)
    workspace = np.full(plan.workspace_size, 0xFF, dtype=np.uint8)
    buffers = [tensor.view(np.uint8) for tensor in tensors]
    run(np.array(plan.parameters), buffers, workspace, 0, plan.units)


@pytest.mark.parametrize(
    "module",
    [
        "reference_plan",
        "reference_loops",
        "reference_strided",
        "operators.im2col_backward.reference_kernel",
    ],
)
def test_the_float64_path_shares_no_loop_with_the_float32_path(module: str) -> None:
    source = Path(opserve_kernels.__file__).parent / f"{module.replace('.', '/')}.py"
    imported = {
        node.module
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    }

    shared = {f"opserve_kernels.{name}" for name in _SHARED}
    ours = {name for name in imported if name and name.startswith("opserve_kernels.")}
    assert {name for name in ours if ".reference_" not in name} <= shared


@pytest.mark.parametrize(("groups", "extend"), [(4, 2), (3, 2), (2, 1)])
def test_only_the_diagonal_of_a_superblock_is_kept(groups: int, extend: int) -> None:
    generator = np.random.default_rng(11)
    image, output = generator.standard_normal((2, 8, 3))
    weight = np.empty((2, 4, 4))
    _run(
        Gradients(
            convolution=_POINTS,
            image=_operand_of(0, image, 8),
            output=_operand_of(1, output, 8),
            grad_weight=_weight_of(2),
            diagonal=Diagonal(groups=groups, extend=extend, input_channels=2, output_channels=2),
        ),
        [image.ravel(), output.ravel(), weight.ravel()],
    )

    expected = np.zeros((2, 4, 4))
    for group in range(groups):
        block, member = divmod(group, extend)
        rows = slice(4 * block + 2 * member, 4 * block + 2 * member + 2)
        within = slice(2 * member, 2 * member + 2)
        expected[block, within, within] = output[rows] @ image[rows].T
    np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-14)
    assert np.all(weight[expected == 0] == 0)


def test_an_image_of_fewer_channels_is_padded_with_zeros_and_written_in_its_size() -> None:
    generator = np.random.default_rng(12)
    image, weight = generator.standard_normal((6, 3)), generator.standard_normal((2, 4, 4))
    output, padded = np.full((7, 3), np.nan), np.zeros((8, 3))
    padded[:6] = image
    _run(
        Gradients(
            convolution=_POINTS,
            image=_operand_of(0, image, 6),
            weight=_weight_of(1),
            grad_output=_operand_of(2, output, 7),
        ),
        [image.ravel(), weight.ravel(), output.ravel()],
    )

    expected = np.einsum("gkc,gcp->gkp", weight, padded.reshape(2, 4, 3)).reshape(8, 3)
    np.testing.assert_allclose(output, expected[:7], rtol=0, atol=1e-14)


def test_float16_results_saturate_on_request() -> None:
    image, weight = np.full((8, 3), 300.0), np.full((2, 4, 4), 300.0)
    saturated, infinite = np.zeros((2, 8, 3), dtype=np.float16)
    for number_format, result in ((FLOAT16_SATURATED, saturated), (DOUBLE, infinite)):
        _run(
            Gradients(
                convolution=_POINTS,
                image=_operand_of(0, image, 8),
                weight=_weight_of(1),
                grad_output=_operand_of(2, result, 8, number_format=number_format),
            ),
            [image.ravel(), weight.ravel(), result.ravel()],
        )

    assert np.all(saturated == np.float16(65504))
    assert np.all(np.isposinf(infinite))
