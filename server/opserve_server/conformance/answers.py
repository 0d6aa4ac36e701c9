"""Answers of the conformance calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from opserve_kernels.conformance.comparison import Drift
from opserve_kernels.conformance.record import CaseResult
from opserve_server.core.runs import Baseline

Definition = NewType("Definition", str)
"""A case as the JSON line of a suite; inside another document it is an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteInfo:
    """A suite.

    Attributes:
        name: Its name.
        summary: What it tests, in one sentence.
    """

    name: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """Every suite.

    Attributes:
        suites: The suites.
    """

    suites: Sequence[SuiteInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInfo:
    """A case of a suite; see opserve.v1.CaseInfo.

    Attributes:
        id: Its id.
        operator: Name of its operator.
        profile: Profile that it is a call of.
        expect: PASS, or the name of the status with which the call must be rejected.
        tags: Properties of which it is an example.
        source: Origin of the case.
    """

    id: str
    operator: str
    profile: str
    expect: str
    tags: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """One page of a suite's cases.

    Attributes:
        cases: The cases, in the order of the suite.
        cursor: Cursor of the next page; empty: there is none.
        total: Number of cases on all pages.
        digest: Digest of the whole suite: suites with equal digests have equal cases.
    """

    cases: Sequence[CaseInfo]
    cursor: str
    total: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCase:
    """The definition of a case.

    Attributes:
        definition: The line of the suite that defines the case.
    """

    definition: Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A line from which no case could be made; see opserve.v1.RefusedLine.

    Attributes:
        line: Number of the line, from 1.
        text: The line, cut off.
        reason: Reason.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesRead:
    """Cases made from lines, and the lines that could not be converted.

    Attributes:
        definitions: Definitions of cases, each with its id.
        refused: The lines that could not be converted.
    """

    definitions: Sequence[Definition]
    refused: Sequence[RefusedLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict: its status, the reason in one sentence, and the complete verdict as JSON.

    Attributes:
        case: Id of the case.
        status: PASSED, FAILED, ...
        reason: Reason, in one sentence.
        verdict: The complete verdict, JSON.
    """

    case: str
    status: str
    reason: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A verdict, or the names of the outputs that must be sent first.

    Attributes:
        verified: The verdict; None where outputs are missing.
        missing: Names of the outputs that the service lacks.
    """

    verified: Verified | None
    missing: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """Number of cases with a status.

    Attributes:
        status: PASSED, FAILED, ...
        cases: Number of cases with this status.
    """

    status: str
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run; see opserve.v1.Run.

    Attributes:
        id: Its id, 16 hexadecimal digits.
        target: The caller's name for the target.
        suite: Name of the suite.
        seed: Seed that draws the shapes and inputs of the suite.
        digest: Digest of the whole suite: suites with equal digests have equal cases.
        profile: Only cases of this profile; empty: all.
        operator: Only cases of this operator; empty: all.
        match: Only cases that match this pattern; empty: all.
        state: RUNNING, ENDED, CANCELLED, FAILED, or INTERRUPTED by the end of the service.
        reason: Why it failed.
        cases: Number of selected cases; 0 until the suite is made.
        judged: Number of cases judged so far.
        counts: Number of judged cases by status.
        worst: Greatest used fraction of a tolerance among correct outputs.
        created_at: When it began, seconds since 1970.
        ended_at: When it ended, seconds since 1970; None: it runs.
        repeats: Equal calls of each case; 0 of a reported run.
        standards: Standards that are reported beside the layers.
        gates: Standards that fail an output which does not meet them.
        deterministic_level: Level of the sessions; empty of a reported run.
        stage: WAITING, MAKING_SUITE or TRYING; empty where this process does not execute it.
        case: Id of the oldest case in progress.
        origin: DEVICE, or REPORTED where it was judged elsewhere.
        tool: Tool that judged a reported run.
        accuracy: Error bound of the sessions' results; empty of a reported run.
        documented_rules: Answer to calls that break a rule of the vendor's page alone; empty of a
            reported run.
        kernel_variant: Kernel variant of the devices; empty of a reported run.
    """

    id: str
    target: str
    suite: str
    seed: int
    digest: str
    profile: str
    operator: str
    match: str
    state: str
    reason: str
    cases: int
    judged: int
    counts: Sequence[StatusCount]
    worst: float
    created_at: float
    ended_at: float | None
    repeats: int
    standards: Sequence[str]
    gates: Sequence[str]
    deterministic_level: str
    accuracy: str
    documented_rules: str
    stage: str
    case: str
    origin: str
    tool: str
    kernel_variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A run.

    Attributes:
        run: The run.
    """

    run: RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of runs, the newest first.

    Attributes:
        runs: The runs.
        cursor: Cursor of the next page; empty: there is none.
    """

    runs: Sequence[RunInfo]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """One page of results.

    Attributes:
        results: Result of each case.
        cursor: Cursor of the next page; empty: there is none.
    """

    results: Sequence[CaseResult]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBaseline:
    """A baseline.

    Attributes:
        baseline: The baseline.
    """

    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class AllBaselines:
    """The tenant's baselines by name.

    Attributes:
        baselines: The baselines.
    """

    baselines: Sequence[Baseline]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """Differences between a run and an earlier one; see opserve.v1.CompareRunsResponse.

    Attributes:
        before: The earlier run.
        now: The later run.
        same_suite: Whether both are of suites with equal digests.
        new_failures: Cases that fail now, and did not fail or were not tried before.
        fixed: Cases that failed before and pass now.
        newly_skipped: Cases that were judged before and are skipped now.
        drifts: Cases that pass both times but use more of their tolerance now, the largest drift
            first.
        missing: Number of the earlier run's cases that are not selected now.
    """

    before: RunInfo
    now: RunInfo
    same_suite: bool
    new_failures: Sequence[str]
    fixed: Sequence[str]
    newly_skipped: Sequence[str]
    drifts: Sequence[Drift]
    missing: int
