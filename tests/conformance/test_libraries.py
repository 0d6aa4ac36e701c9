"""PyTorch's and ONNX Runtime's kernels as targets: every aclnn operator that they have."""

from importlib import import_module

import pytest

from conformance.judging import Attempt, copied, findings, memory_of, verdict_of
from conformance.survey import small_cases
from kernels.cases.runs import expected_of
from opserve_client.conform.targets.function import Called
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Missing, Ran
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

ACLNN = [name for name, operator in OPERATORS.items() if operator.family == "aclnn"]
OF_ONNX = ["convolution_backward", "im2col_backward", "convolution", "conv_depthwise2d"]
_JUDGED = (DataType.FLOAT, DataType.BF16)  # PyTorch adds partial sums of FLOAT16 in FLOAT16


def outcomes(library: str, operator: str) -> dict[str, set[str]]:
    """Findings on every case of `smoke` that a library computes."""
    called = Called(import_module(f"opserve_client.conform.targets.{library}").kernels)
    found: dict[str, set[str]] = {}
    for case in small_cases("smoke"):
        if case.operator == operator and _is_judged(case):
            before = memory_of(case, 0)
            after = copied(case, before)
            outcome = called.run(case, after)
            if isinstance(outcome, Ran):
                made = Attempt(before=before, after=[after])
                found[case.id] = findings(verdict_of(case, expected_of(case, 0), made))
            else:
                assert isinstance(outcome, Missing), outcome
    return found


def _is_judged(case: Case) -> bool:
    return not case.is_refused and next(iter(case.inputs.values())).dtype in _JUDGED


@pytest.mark.torch
@pytest.mark.parametrize("operator", ACLNN)
def test_pytorch_computes_every_aclnn_operator(operator: str) -> None:
    found = outcomes("torch_cpu", operator)

    assert found
    assert not any(found.values()), found


@pytest.mark.onnxruntime
@pytest.mark.parametrize("operator", OF_ONNX)
def test_onnx_runtime_computes_convolutions_and_folds(operator: str) -> None:
    found = outcomes("onnx_runtime", operator)

    assert found
    assert not any(found.values()), found
