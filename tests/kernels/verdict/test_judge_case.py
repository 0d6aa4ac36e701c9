"""A whole case is judged: form, repeats, memory, standards, and the layer that fits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from kernels.cases.runs import Array, expected_of, run
from opserve_kernels.cases import large_calls
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.calls import Layout, Setting
from opserve_kernels.cases.case import Case, Fill, Kind
from opserve_kernels.cases.fill import unwritten
from opserve_kernels.cases.large_calls import PROJECTED, projections_of
from opserve_kernels.cases.suites import STANDARD_LIMIT
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.judge_case import (
    NO_STANDARDS,
    Expected,
    Results,
    Standards,
    judge_case,
    judge_code,
    judge_output,
)
from opserve_kernels.verdict.verdict import Code, Status, Verdict

REAL = Setting(kind=Kind.NORMAL)
FOLD = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2))
GAPPED = Setting(layouts={"out": Layout(strides=(40, 20, 5, 1), offset=3)})
PLAIN = ConvolutionCall(input=(2, 12, 7, 6), weight=(16, 12, 3, 2))
BF16 = DataType.BF16
PROJECTED_CALLS = [
    replace(PLAIN, stride=(2, 1), padding=(1, 2)),
    replace(PLAIN, weight=(24, 6, 3, 2), groups=2),
    replace(PLAIN, weight=(12, 16, 3, 2), transposed=True, stride=(2, 3)),
    replace(PLAIN, weight=(12, 10, 3, 2), transposed=True, groups=2),
    ConvolutionCall(input=(1, 5, 9), weight=(6, 5, 3), cube_math_type=1),
]


def memory_of(case: Case) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Storages before and after our own kernels ran, and the outputs."""
    before, after = arrays_of(case, 0), dict(arrays_of(case, 0))
    run(case, after)
    return (
        {name: placed.storage for name, placed in before.items()},
        {name: placed.storage for name, placed in after.items()},
        {name: after[name].elements for name in case.written},
    )


def judged(case: Case, *runs: Mapping[str, Array], standards: Standards = NO_STANDARDS) -> Verdict:
    results = Results(outputs=runs, before={}, after={})
    expected = expected_of(case, 0)
    return judge_case(case, results, expected=expected, contract="2", standards=standards)


def layers(verdict: Verdict) -> Mapping[str, str]:
    return {output.name: output.layers[0].name for output in verdict.outputs}


def complaints(verdict: Verdict) -> Sequence[str]:
    return [check.name for check in verdict.checks if check.status is not Status.PASSED]


def test_right_results_pass_by_the_layer_that_fits() -> None:
    for setting, layer in ((Setting(), "exact"), (REAL, "rounding")):
        case = FOLD.case(setting)
        before, after, outputs = memory_of(case)
        results = Results(outputs=[outputs, outputs], before=before, after=after)
        verdict = judge_case(case, results, expected=expected_of(case, 0), contract="2")
        assert (verdict.status, verdict.contract, layers(verdict)) == (
            Status.PASSED,
            "2",
            {"out": layer},
        )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "out: nothing was given"),
        (np.zeros((2, 2, 4, 4)), "out: float64 of shape (2, 2, 4, 4) was given instead of float32"),
        (np.zeros((2, 2, 4, 3), np.float32), "out: float32 of shape (2, 2, 4, 3) was given"),
    ],
)
def test_every_call_must_return_an_array_of_the_right_form(
    given: Array | None, reason: str
) -> None:
    case = FOLD.case()
    right = memory_of(case)[2]
    wrong = {} if given is None else {"out": given}
    for runs in ([wrong, right], [right, wrong]):
        verdict = judged(case, *runs)
        assert (verdict.status, verdict.outputs) == (Status.FAILED, ())
        assert verdict.reason.startswith(reason)


def test_a_computed_nan_is_a_wrong_element_and_no_unwritten_one() -> None:
    case = FOLD.case(REAL)
    right = memory_of(case)[2]["out"]
    wrong = right.copy()
    wrong[0, 0, 0] += 1
    wrong[1, 1, 2, 3] = np.float32(np.nan)
    verdict = judged(case, {"out": wrong})
    assert complaints(verdict) == []
    assert verdict.reason.startswith("out: 5 of 64 elements are wrong, the first at (0, 0, 0, 0)")


def test_the_reason_is_that_of_the_part_with_the_most_elements_at_fault() -> None:
    case = FOLD.case(REAL)
    left = memory_of(case)[2]["out"].copy()
    left[1, 1, 2, 3] = unwritten(1, DataType.FLOAT)[0]
    assert judged(case, {"out": left}).reason.startswith("out: 1 of 64 elements were not written")
    left[0, 0, 0] += 1
    verdict = judged(case, {"out": left})
    assert complaints(verdict) == ["written"]
    assert verdict.reason.startswith("out: 5 of 64 elements are wrong")


def test_calls_that_differ_are_nondeterministic() -> None:
    case = FOLD.case(REAL)
    right = memory_of(case)[2]
    other = {"out": np.nextafter(right["out"], np.float32(9))}
    assert judged(case, right, other).status is Status.NONDETERMINISTIC


def test_memory_that_is_known_is_looked_at() -> None:
    case = FOLD.case(GAPPED)
    before, after, outputs = memory_of(case)
    expected = expected_of(case, 0)
    for name, place, check in (("grad_output", 0, "untouched"), ("out", 1, "gaps")):
        changed = {**after, name: after[name].copy()}
        changed[name][place] = 7
        results = Results(outputs=[outputs], before=before, after=changed)
        verdict = judge_case(case, results, expected=expected, contract="2")
        assert (verdict.status, complaints(verdict)) == (Status.FAILED, [check])


def test_an_output_that_the_mask_leaves_out_must_stay_as_it_was() -> None:
    case = replace(PLAIN, mask=(True, False, True), gives_masked=True).case()
    before, after, outputs = memory_of(case)
    after = {**after, "grad_weight": np.zeros_like(after["grad_weight"])}
    results = Results(outputs=[outputs], before=before, after=after)
    verdict = judge_case(case, results, expected=expected_of(case, 0), contract="2")
    assert complaints(verdict) == ["untouched"]
    assert set(layers(verdict)) == {"grad_input", "grad_bias"}


def test_standards_are_reported_and_only_gates_fail() -> None:
    case = FOLD.case(Setting(kind=Kind.OFFSET))
    expected = expected_of(case, 0)["out"]
    assert expected.magnitudes is not None
    near = (expected.values + 1e-6 * expected.magnitudes).astype(np.float32)
    name = "torch-assert-close"
    strict = replace(expected, magnitudes=expected.magnitudes * 1e6)  # so that rounding passes
    (one,) = sums_of(case)
    given = near * np.float32(1 + 1e-5)
    judged = judge_output(case, one, given, strict, Standards(reported=(name,)))
    assert [(layer.name, layer.gate, layer.passed) for layer in judged.layers] == [
        ("rounding", True, True),
        (name, False, False),
    ]
    assert judged.status is Status.PASSED
    gated = judge_output(case, one, given, strict, Standards(reported=(name,), gates=(name,)))
    assert (gated.status, gated.reason) == (Status.FAILED, f"out: does not meet {name}")


def test_a_gate_without_numbers_for_a_dtype_fails_nothing() -> None:
    case = FoldCall(out=(1, 2, 4, 4), kernel=(2, 2), dtypes=(BF16, BF16)).case(REAL)
    name = "tensorflow"  # has none for BF16
    outputs = memory_of(case)[2]
    verdict = judged(case, outputs, standards=Standards(reported=(name,), gates=(name,)))
    assert (verdict.status, list(verdict.standards)) == (Status.PASSED, ["rounding"])


def test_thinned_integers_are_exact_while_their_magnitudes_stay_small() -> None:
    case = PLAIN.case()
    thin = Fill(kind=Kind.INTEGER, bound=8, thinning=1)
    tensors = {**case.tensors, "grad_output": replace(case.tensors["grad_output"], fill=thin)}
    thinned = replace(case, tensors=tensors)
    one, expected = sums_of(thinned)[0], expected_of(thinned, 0)["grad_input"]
    given = expected.values.astype(np.float32)
    assert expected.magnitudes is not None
    for largest, layer in ((2.0**24 - 1, "exact"), (2.0**24, "rounding")):
        magnitudes = expected.magnitudes.copy()
        magnitudes.flat[-1] = largest
        sized = replace(expected, magnitudes=magnitudes)
        assert judge_output(thinned, one, given, sized).layers[0].name == layer


def test_sums_in_doubles_are_held_to_doubles() -> None:
    call = replace(PLAIN, dtypes=(DataType.DOUBLE,) * 3, mask=(True, True, False))
    case = call.case(replace(REAL, profile="reference"))
    right = memory_of(case)[2]
    assert judged(case, right).status is Status.PASSED
    singles = {name: array.astype(np.float32).astype(float) for name, array in right.items()}
    assert {output.status for output in judged(case, singles).outputs} == {Status.FAILED}


def test_a_code_is_judged_by_its_name() -> None:
    refused = replace(FOLD.case(), expect="ACLNN_ERR_PARAM_NULLPTR")
    right, wrong = Code(name="ACLNN_ERR_PARAM_NULLPTR"), Code(name="ACLNN_ERR_PARAM_INVALID")
    assert judge_code(refused, right, "2").status is Status.PASSED
    assert judge_code(refused, wrong, "2").status is Status.FAILED
    assert judge_code(refused, None, "2").status is Status.FAILED
    assert judge_code(FOLD.case(), right, "2").status is Status.FAILED


@pytest.mark.parametrize("call", PROJECTED_CALLS)
def test_our_own_kernels_agree_with_projections(
    call: ConvolutionCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_calls, "PROJECTED", 0)
    case = call.case()
    outputs = memory_of(case)[2]
    verdict = judged(case, outputs)
    assert verdict.status is Status.PASSED, verdict.reason
    expected = {"grad_input": "projection", "grad_weight": "projection", "grad_bias": "exact"}
    assert layers(verdict) == expected
    for name in ("grad_input", "grad_weight"):
        wrong = {**outputs, name: outputs[name].copy()}
        wrong[name].reshape(-1)[-1] += 1
        found = judged(case, wrong)
        assert [one.name for one in found.outputs if one.status is Status.FAILED] == [name]
        assert "random signs" in found.reason


@pytest.mark.parametrize(
    "case",
    [
        PLAIN.case(REAL),
        replace(PLAIN, dtypes=(BF16,) * 3).case(),
        replace(PLAIN, weight=(12, 3, 3, 2), groups=4, input=(2, 12, 7, 6)).case(),
        FOLD.case(),
    ],
    ids=["real", "rounded results", "few channels a group", "another operator"],
)
def test_sums_that_are_not_exact_or_few_are_judged_one_by_one(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_calls, "PROJECTED", 0)
    assert projections_of(case, 0) == {}


def test_no_case_of_standard_is_large() -> None:
    assert STANDARD_LIMIT <= PROJECTED


def test_an_error_that_a_projection_could_not_show_is_mistrusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_calls, "PROJECTED", 0)
    case = PLAIN.case()
    zeros = {
        name: Expected(
            values=np.zeros_like(expected.values),
            magnitudes=expected.magnitudes,
            projection=expected.projection,
        )
        for name, expected in expected_of(case, 0).items()
    }
    outputs = {name: np.zeros(case.tensors[name].shape, np.float32) for name in case.written}
    results = Results(outputs=[outputs], before={}, after={})
    assert judge_case(case, results, expected=zeros, contract="2").status is Status.MISTRUSTED
