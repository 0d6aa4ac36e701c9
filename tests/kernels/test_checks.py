"""What is refused, with which code and parameter, and which of two broken rules is told."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import opserve_kernels
from kernels.execution import plan_of
from kernels.samples import REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from kernels.samples.convolution_backward_errors import BASE_3D, tensor_of
from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

_ALL_ERRORS = [sample for samples in REGISTRY_ERROR_SAMPLES.values() for sample in samples]
_KERNELS = Path(opserve_kernels.__file__).parent

# One broken rule each of a 3-D call, in the order in which they must be found.
_IN_ORDER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("input", {"input": None}),
    ("stride", {"stride": None}),
    ("cube_math_type", {"cube_math_type": None}),
    ("output_mask", {"output_mask": (True,)}),
    ("grad_input", {"grad_input": None}),
    ("grad_output", {"grad_output": tensor_of(BASE_3D, "grad_output", dtype=DataType.INT8)}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", dtype=DataType.INT8)}),
    ("grad_output", {"grad_output": tensor_of(BASE_3D, "grad_output", format=Format.NDHWC)}),
    ("grad_weight", {"grad_weight": tensor_of(BASE_3D, "grad_weight", format=Format.NDHWC)}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", format=Format.NCL)}),
    ("stride", {"stride": (0, 1, 1)}),
    ("padding", {"padding": (-1, 0, 0)}),
    ("dilation", {"dilation": (1, 0, 1)}),
    ("output_padding", {"output_padding": (0, 0, 1)}),
    ("groups", {"groups": 0}),
    ("cube_math_type", {"cube_math_type": 9}),
    (
        "grad_output",
        {"grad_output": tensor_of(BASE_3D, "grad_output", shape=(2, 6, 3), format=Format.NCL)},
    ),
    ("grad_input", {"grad_input": tensor_of(BASE_3D, "grad_input", shape=(2, 4, 4, 5, 5))}),
    ("grad_weight", {"grad_weight": tensor_of(BASE_3D, "grad_weight", shape=(6, 4, 2, 3, 1))}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", shape=(4,))}),
    ("stride", {"stride": (1, 1)}),
    ("dilation", {"dilation": (1, 1)}),
    ("padding", {"padding": (0,) * 4}),
    ("output_padding", {"output_padding": (0,) * 4}),
    ("groups", {"groups": 2}),
    ("input", {"dilation": (4, 1, 1)}),
    ("grad_output", {"stride": (2, 2, 2)}),
    ("bias_sizes", {"bias_sizes": (5,)}),
)
_PAIRS = [
    (first, second)
    for first, second in combinations(_IN_ORDER, 2)
    if not first[1].keys() & second[1].keys()
]


@pytest.mark.parametrize("error", _ALL_ERRORS, ids=lambda error: error.sample.name)
def test_broken_rule_is_refused_with_its_code_and_parameter(error: ErrorSample) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(error.sample)

    assert (refusal.value.status, refusal.value.parameter) == (error.status, error.parameter)
    assert refusal.value.given
    assert refusal.value.allowed
    assert refusal.value.message.startswith(f"{error.parameter}: ")


@pytest.mark.parametrize(("first", "second"), _PAIRS)
def test_of_two_broken_rules_the_earlier_is_told(
    first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]]
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(BASE_3D.but("two broken rules", **second[1], **first[1]))

    assert refusal.value.parameter == first[0]


def test_pairs_of_broken_rules_are_many() -> None:
    assert len(_PAIRS) > 300


@pytest.mark.parametrize("operator", REGISTRY_ERROR_SAMPLES)
def test_every_row_of_the_error_table_has_its_sample(operator: str) -> None:
    text = (_KERNELS / operator / "README.md").read_text(encoding="utf-8")
    table = text.split("## Errors")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| 161")]

    rows = {tuple(cell.strip(" `") for cell in row) for row in cells}

    samples = REGISTRY_ERROR_SAMPLES[operator]
    assert rows == {(str(int(s.status)), s.parameter, s.rule) for s in samples}
    assert len(rows) == len(samples)


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
def test_operator_has_at_least_25_samples_of_different_names(operator: str) -> None:
    names = [sample.name for sample in REGISTRY_SAMPLES[operator]]

    assert len(names) >= 25
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("dtype", "status"),
    [(DataType.FLOAT, None), (DataType.BOOL, Status.ACLNN_ERR_PARAM_INVALID)],
)
def test_masked_gradient_is_checked_where_it_is_given(
    dtype: DataType, status: Status | None
) -> None:
    sample: Sample = BASE_3D.but(
        "masked",
        output_mask=(False, True, True),
        grad_input=tensor_of(BASE_3D, "grad_input", dtype=dtype),
    )

    if status is None:
        assert plan_of(sample).units > 0
    else:
        with pytest.raises(InvalidArgument, match="grad_input: given dtype BOOL"):
            plan_of(sample)
