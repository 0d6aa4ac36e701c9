"""Trials: the result of each outcome of a target, repeated calls, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernels.conformance.trying import Kernels, Scripted, after, task_of
from opserve_kernels.cases.arrays import memory_of, view_of
from opserve_kernels.cases.calls import Layout, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.refusals.changes import source_of
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, Refused, without_codes
from opserve_kernels.conformance.trial import Trial, Tried
from opserve_kernels.operator import Rule
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.verdict import Code, Status

STRIDED = Setting(layouts={"out": Layout(strides=(40, 20, 5, 1), offset=3)})
CASE = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2)).case(STRIDED)
BEFORE = memory_of(CASE, 5)
RIGHT = Ran(storages=after(CASE, BEFORE), seconds=0.5)
RULES = {rule.broken: rule for rule in cases_of("convolution_backward").rules}
CASES = {case.source: case for case in refusals_of("convolution_backward")}
PAGE, CONTRADICTED = RULES["not the channels"], RULES["four values"]
SOURCE = RULES["not zero, transposed is false"]
PAGE_CASE, SOURCE_CASE = CASES[source_of(PAGE)], CASES[source_of(SOURCE)]
OWN_CASE = replace(PAGE_CASE, source="mine")


@dataclass(frozen=True)
class Warned:
    """A broken rule, as a target reports it."""

    name: str
    parameter: str
    sentence: str
    code: int = 161002


def warning_of(rule: Rule) -> Warned:
    return Warned(name=rule.status.name, parameter=rule.parameter, sentence=rule.sentence)


def wrong(seconds: float) -> Ran:
    """One element is another one."""
    storages = after(CASE, BEFORE)
    view_of(storages["out"], CASE.tensors["out"])[0, 0, 0, 0] += 1
    return Ran(storages=storages, seconds=seconds)


async def tried(case: Case, *outcomes: Outcome, warns: bool = False) -> Tried:
    trial = Trial(
        target=Scripted(outcomes), backend=Kernels(), warns=warns, repeats=max(1, len(outcomes))
    )
    return await trial.run(task_of(case))


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (RIGHT, Status.PASSED, "all layers and checks passed"),
        (wrong(1.0), Status.FAILED, "out: 1 of 64 elements are wrong"),
        (Ran(outputs={}), Status.FAILED, "out: nothing was given"),
        (Refused(code=Code(name="NO"), reason=""), Status.FAILED, "NO instead of no refusal"),
        (Missing(reason="not here"), Status.UNIMPLEMENTED, "not here"),
        (Broken(reason="it fell"), Status.ERROR, "it fell"),
    ],
)
async def test_an_outcome_decides_the_status(outcome: Outcome, status: Status, reason: str) -> None:
    verdict = (await tried(CASE, outcome)).verdict
    assert verdict.status is status
    assert reason in verdict.reason


async def test_outputs_that_a_target_returns_count_before_its_memory() -> None:
    given = Ran(outputs={"out": view_of(wrong(0).storages["out"], CASE.tensors["out"])})
    verdict = (await tried(CASE, replace(given, storages=RIGHT.storages))).verdict
    assert verdict.status is Status.FAILED


async def test_gaps_and_inputs_in_known_memory_are_looked_at() -> None:
    checks = {(one.name, one.tensor) for one in (await tried(CASE, RIGHT)).verdict.checks}
    assert {("gaps", "out"), ("untouched", "grad_output"), ("written", "out")} <= checks


async def test_a_case_that_a_target_skips_is_not_run() -> None:
    target = Scripted(reason="too large")
    trial = Trial(target=target, backend=Kernels(), warns=False)
    verdict = (await trial.run(task_of(CASE))).verdict
    assert (verdict.status, verdict.reason, target.reads) == (Status.SKIPPED, "too large", [])


async def test_a_target_without_codes_skips_calls_that_must_be_refused() -> None:
    assert not without_codes(CASE)
    assert without_codes(PAGE_CASE) == "the target reports no status codes"


async def test_equal_calls_pass_and_the_shortest_counts() -> None:
    target = Scripted([RIGHT, replace(RIGHT, storages=after(CASE, BEFORE), seconds=0.25), RIGHT])
    found = await Trial(target=target, backend=Kernels(), warns=False, repeats=3).run(task_of(CASE))
    (check,) = (one for one in found.verdict.checks if one.name == "repeats")
    assert (found.verdict.status, found.seconds) == (Status.PASSED, 0.25)
    assert check.reason == "out: is the same in 3 equal calls"
    assert target.reads == [{"grad_output", "out"}, {"out"}, {"out"}]


async def test_calls_end_at_the_first_that_leaves_other_bits() -> None:
    target = Scripted([RIGHT, RIGHT, wrong(0.5), Broken(reason="never")])
    found = await Trial(target=target, backend=Kernels(), warns=False, repeats=4).run(task_of(CASE))
    assert found.verdict.status is Status.NONDETERMINISTIC
    assert "out: 1 of 64 elements differ in 3 equal calls" in found.verdict.reason


OUT = view_of(RIGHT.storages["out"], CASE.tensors["out"])


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ({"out": OUT}, {"out": OUT.copy()}, Status.PASSED),
        ({"out": OUT}, {}, Status.FAILED),
        ({"out": OUT}, {"out": OUT.reshape(-1)}, Status.FAILED),
        ({"out": OUT.astype(object)}, {"out": OUT.astype(object)}, Status.FAILED),
        ({}, {}, Status.FAILED),
    ],
)
async def test_results_of_equal_calls_must_be_equal_in_form_too(
    first: dict[str, Array], second: dict[str, Array], status: Status
) -> None:
    found = await tried(CASE, Ran(outputs=first), Ran(outputs=second))
    assert found.verdict.status is status


async def test_a_call_that_fails_later_decides() -> None:
    assert (await tried(CASE, RIGHT, Broken(reason="late"))).verdict.status is Status.ERROR


async def test_a_refused_call_passes_by_its_code() -> None:
    refused = Refused(code=Code(name=SOURCE_CASE.expect), reason="")
    found = await tried(SOURCE_CASE, refused)
    assert found.verdict.status is Status.PASSED
    assert (await tried(SOURCE_CASE, Ran(outputs={}))).verdict.status is Status.FAILED


@pytest.mark.parametrize(
    ("case", "warnings", "warns", "passes"),
    [
        (PAGE_CASE, (), True, False),
        (PAGE_CASE, (warning_of(CONTRADICTED), warning_of(PAGE)), True, True),
        (PAGE_CASE, (warning_of(PAGE),), False, False),
        (PAGE_CASE, (warning_of(CONTRADICTED),), True, False),
        (PAGE_CASE, (replace(warning_of(PAGE), parameter="stride"),), True, False),
        (PAGE_CASE, (replace(warning_of(PAGE), sentence="another"),), True, False),
        (PAGE_CASE, (replace(warning_of(PAGE), name="ACLNN_ERR_OTHER"),), True, False),
        (SOURCE_CASE, (warning_of(SOURCE),), True, False),
        (SOURCE_CASE, (warning_of(CONTRADICTED),), True, False),
        (OWN_CASE, (warning_of(PAGE),), True, True),
        (OWN_CASE, (warning_of(PAGE),), False, False),
        (OWN_CASE, (warning_of(CONTRADICTED),), False, True),
        (OWN_CASE, (warning_of(SOURCE),), True, False),
    ],
)
async def test_an_accepted_call_passes_if_a_rule_that_may_be_a_warning_is_warned_of(
    case: Case, warnings: Sequence[Warned], *, warns: bool, passes: bool
) -> None:
    found = await tried(case, Ran(outputs={}, warnings=tuple(warnings)), warns=warns)
    assert found.verdict.status is (Status.PASSED if passes else Status.FAILED)
    assert found.warnings == tuple(warnings)
    assert found.verdict.reason.startswith("accepted with a warning of 161002 ") is passes


async def test_expected_values_are_requested_once(tmp_path: Path) -> None:
    backend = Kernels()
    for _ in range(2):
        trial = Trial(target=Scripted([RIGHT]), backend=backend, warns=False)
        assert (await trial.run(task_of(CASE, tmp_path))).verdict.status is Status.PASSED
    assert len(backend.asked) == 1
