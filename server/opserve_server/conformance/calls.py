"""The calls of conformance as values: what each asks and answers, on every wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from opserve_kernels.verdict.case_result import CaseResult
from opserve_kernels.verdict.changes import Drift
from opserve_server.core.runs import Baseline

Definition = NewType("Definition", str)
"""A case as a line of a suite has it, JSON; as a part of another document it is an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSuites:
    """Lists the suites that the operators' contracts make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCases:
    """Lists cases of a suite, in its order."""

    suite: str = ""
    seed: int = 0
    operator: str = ""
    match: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetCase:
    """Tells what a case is."""

    suite: str = ""
    case: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCases:
    """Reads cases from problems of benchdnn, commands of MIOpenDriver, or definitions."""

    form: str = ""
    text: str = ""
    profile: str = ""
    fill: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInputs:
    """Answers an .npz file with the inputs of a case."""

    suite: str = ""
    case: str = ""
    seed: int = 0
    definition: Definition = Definition("")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGolden:
    """Answers an .npz file with what each output must be, and the magnitudes of its sums."""

    suite: str = ""
    case: str = ""
    seed: int = 0
    definition: Definition = Definition("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOutputs:
    """Tells the verdict on outputs that were sent before, by digest, or which must be sent."""

    suite: str = ""
    case: str = ""
    seed: int = 0
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    definition: Definition = Definition("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Judges outputs of a case: arrays of an .npz file, and digests of what was sent before."""

    suite: str = ""
    case: str = ""
    seed: int = 0
    code: str = ""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    definition: Definition = Definition("")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuite:
    """Tries a suite on devices of this service; the answer comes at once."""

    suite: str = ""
    seed: int = 0
    target: str = ""
    profile: str = ""
    operator: str = ""
    match: str = ""
    repeats: int = 0
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    deterministic_level: str = ""
    definitions: tuple[Definition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRun:
    """Tells how far a run is, at once or at its end, but after wait_s seconds at the latest."""

    run: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """Ends a run; what is judged stays."""

    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuns:
    """Lists the tenant's runs, on one target or all, the newest first."""

    target: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResults:
    """Lists what became of a run's cases, with one status or any, in the suite's order."""

    run: str = ""
    status: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRun:
    """Adds a run whose cases were tried and judged elsewhere: all of it, or nothing."""

    target: str = ""
    suite: str = ""
    seed: int = 0
    digest: str = ""
    tool: str = ""
    results: tuple[CaseResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBaseline:
    """Gives a name to a run that has ended, or a name to another run."""

    name: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBaselines:
    """Lists the tenant's baselines by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBaseline:
    """Takes a name away; its run stays as long as others of its age."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRuns:
    """Tells how a run differs from an earlier one; each is named by its id or a baseline's name."""

    before: str = ""
    now: str = ""


OfRun = RunSuite | GetRun | CancelRun | ListRuns | ListResults
OfHistory = ReportRun | SetBaseline | ListBaselines | DeleteBaseline | CompareRuns
OfAnyCase = GetInputs | GetGolden | SubmitOutputs | Verify
"""Of a case in a suite, or of one of the caller's own, which comes as its definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteInfo:
    """A suite."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """Every suite."""

    suites: Sequence[SuiteInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInfo:
    """A case of a suite; see opserve.v1.CaseInfo."""

    id: str
    operator: str
    profile: str
    expect: str
    tags: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """Some cases of a suite; the cursor asks for the next ones, and is empty where none is."""

    cases: Sequence[CaseInfo]
    cursor: str
    total: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCase:
    """A case: the line of JSON that a suite has of it."""

    definition: Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A line that makes no case; see opserve.v1.RefusedLine."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesRead:
    """What lines make: definitions of cases, each with its id; and what makes none."""

    definitions: Sequence[Definition]
    refused: Sequence[RefusedLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict: its status, the reason in one sentence, and the whole of it as JSON."""

    case: str
    status: str
    reason: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A verdict, or the names of the outputs that must be sent first."""

    verified: Verified | None
    missing: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """How many cases have a status."""

    status: str
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run; see opserve.v1.Run."""

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
    stage: str
    case: str
    origin: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A run."""

    run: RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Some runs; the cursor asks for older ones, and is empty where none is."""

    runs: Sequence[RunInfo]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """What became of some cases; the cursor asks for the next, and is empty where none is."""

    results: Sequence[CaseResult]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBaseline:
    """A baseline."""

    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class AllBaselines:
    """The tenant's baselines by name."""

    baselines: Sequence[Baseline]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """How a run differs from an earlier one; see opserve.v1.CompareRunsResponse."""

    before: RunInfo
    now: RunInfo
    same_suite: bool
    new_failures: Sequence[str]
    fixed: Sequence[str]
    newly_skipped: Sequence[str]
    drifts: Sequence[Drift]
    missing: int


ANSWERS: Mapping[type, type] = {
    ListSuites: Suites,
    ListCases: CasePage,
    GetCase: OneCase,
    ReadCases: CasesRead,
    SubmitOutputs: Submitted,
    RunSuite: OneRun,
    GetRun: OneRun,
    CancelRun: OneRun,
    ListRuns: RunPage,
    ListResults: ResultPage,
    ReportRun: OneRun,
    SetBaseline: OneBaseline,
    ListBaselines: AllBaselines,
    DeleteBaseline: OneBaseline,
    CompareRuns: RunChanges,
}
"""The calls that carry no arrays, by their request, and what each answers."""
