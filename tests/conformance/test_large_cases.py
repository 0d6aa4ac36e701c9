"""A case that is too large for an expected value of each element: its sums show faults too."""

from collections.abc import Mapping
from functools import cache

import pytest

from conformance.faulty.faults import FAULTS
from conformance.faulty.kernel import Kernel
from conformance.judging import attempt, findings, memory_of, verdict_of
from conformance.survey import RIGHT
from kernels.cases.runs import expected_of
from opserve_kernels.cases.large_calls import PROJECTED
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.verdict.judge_case import Expected
from opserve_kernels.verdict.verdict import Status, Verdict

LARGE = ConvolutionCall(input=(2, 514, 352), weight=(510, 514, 3)).case()
SHOWN = ("kernel flipped", "padding", "stale output", "batch tail", "channel tail")


@cache
def expected() -> Mapping[str, Expected]:
    return expected_of(LARGE, 0)


def verdict_on(kernel: Kernel) -> Verdict:
    return verdict_of(LARGE, expected(), attempt(kernel, LARGE, memory_of(LARGE, 0)))


def test_a_right_kernel_passes_and_the_verdict_states_how_it_was_judged() -> None:
    verdict = verdict_on(RIGHT)

    assert multiply_adds(LARGE) > PROJECTED
    assert verdict.status is Status.PASSED, verdict.reason
    assert {output.name: output.layers[0].name for output in verdict.outputs} == {
        "grad_input": "projection",
        "grad_weight": "projection",
        "grad_bias": "exact",
    }
    assert "projection" in verdict.outputs[0].reason
    assert verdict.standards["projection"] == "1"


@pytest.mark.parametrize("fault", SHOWN)
def test_a_fault_in_a_large_case_is_caught(fault: str) -> None:
    assert "projection" in findings(verdict_on(FAULTS[fault].kernel))
