"""Answers of the calls of conformance, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NewType

from opserve_kernels.conformance.comparison import Drift
from opserve_kernels.conformance.record import CaseResult
from opserve_server.core.runs import Baseline

Definition = NewType("Definition", str)
"""A case as a line of a suite has it, JSON; as a part of another document it is an object."""


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
        expect: PASS, or the name of the status that the call must be refused with.
        tags: What it is an example of.
        source: What it was made from.
    """

    id: str
    operator: str
    profile: str
    expect: str
    tags: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """Some cases of a suite; the cursor asks for the next ones, and is empty where none is.

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
    """A case: the line of JSON that a suite has of it.

    Attributes:
        definition: The line of the suite that defines the case.
    """

    definition: Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A line that makes no case; see opserve.v1.RefusedLine.

    Attributes:
        line: Number of the line, from 1.
        text: The line, cut off.
        reason: Why it makes no case.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesRead:
    """What lines make: definitions of cases, each with its id; and what makes none.

    Attributes:
        definitions: Definitions of cases, each with its id.
        refused: The lines that make no case.
    """

    definitions: Sequence[Definition]
    refused: Sequence[RefusedLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict: its status, the reason in one sentence, and the whole of it as JSON.

    Attributes:
        case: Id of the case.
        status: PASSED, FAILED, ...
        reason: Why, in one sentence.
        verdict: The whole verdict, JSON.
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
    """How many cases have a status.

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
        target: The caller's name for what is tried.
        suite: Name of the suite.
        seed: Seed that draws the shapes and inputs of the suite.
        digest: Digest of the whole suite: suites with equal digests have equal cases.
        profile: Only cases of this profile; empty: all.
        operator: Only cases of this operator; empty: all.
        match: Only cases that match this pattern; empty: all.
        state: RUNNING, ENDED, CANCELLED, FAILED, or INTERRUPTED by the end of the service.
        reason: Why it failed.
        cases: Number of cases that are chosen; 0 until the suite is made.
        judged: Number of cases that are judged so far.
        counts: Number of judged cases by status.
        worst: Greatest used fraction of a tolerance among outputs that are right.
        created_at: When it began, seconds since 1970.
        ended_at: When it ended, seconds since 1970; None: it runs.
        repeats: Equal calls of each case; 0 of a reported run.
        standards: Standards that are reported beside the layers.
        gates: Standards that fail an output which does not meet them.
        deterministic_level: Level of the sessions; empty of a reported run.
        stage: WAITING, MAKING_SUITE or TRYING; empty where this process does not carry it out.
        case: Id of the first case at work.
        origin: DEVICE, or REPORTED where it was judged elsewhere.
        tool: What judged a reported run.
        accuracy: Error bound of the sessions' results; empty of a reported run.
        documented_rules: Answer to calls that break a rule of the vendor's page alone; empty of a
            reported run.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A run.

    Attributes:
        run: The run.
    """

    run: RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Some runs; the cursor asks for older ones, and is empty where none is.

    Attributes:
        runs: The runs.
        cursor: Cursor of the next page; empty: there is none.
    """

    runs: Sequence[RunInfo]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """What became of some cases; the cursor asks for the next, and is empty where none is.

    Attributes:
        results: What became of each case.
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
    """How a run differs from an earlier one; see opserve.v1.CompareRunsResponse.

    Attributes:
        before: The earlier run.
        now: The later run.
        same_suite: Whether both are of suites with equal digests.
        new_failures: Cases that fail now, and did not fail or were not tried before.
        fixed: Cases that failed before and pass now.
        newly_skipped: Cases that were judged before and are left out now.
        drifts: Cases that pass both times but use more of their tolerance now, the largest drift
            first.
        missing: Number of the earlier run's cases that were not chosen now.
    """

    before: RunInfo
    now: RunInfo
    same_suite: bool
    new_failures: Sequence[str]
    fixed: Sequence[str]
    newly_skipped: Sequence[str]
    drifts: Sequence[Drift]
    missing: int
