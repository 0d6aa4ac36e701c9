"""Requests of the conformance calls, the same for every API."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from opserve_kernels.conformance.record import CaseResult
from opserve_server.conformance.answers import (
    AllBaselines,
    CasePage,
    CasesRead,
    Definition,
    OneBaseline,
    OneCase,
    OneRun,
    ResultPage,
    RunChanges,
    RunPage,
    Submitted,
    Suites,
)
from opserve_server.core.principal import Scope

SCOPE = Scope.OPERATE
"""The scope that each of these calls requires."""
_NO_DEFINITION = Definition("")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSuites:
    """Lists the suites that the operators' contracts make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCases:
    """Lists cases of a suite, in its order.

    Attributes:
        suite: Name of the suite.
        seed: Seed that draws the shapes and inputs of the suite.
        operator: Only cases of this operator; empty: all.
        match: Only cases whose id, source or tag matches this pattern (*, ?); empty: all.
        cursor: Cursor of the previous page; empty: the first page.
        limit: Most cases of the page, up to 1000; 0: 100.
    """

    suite: str = ""
    seed: int = 0
    operator: str = ""
    match: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetCase:
    """Returns the definition of a case.

    Attributes:
        suite: Name of the suite.
        case: Id of the case.
        seed: Seed that draws the shapes and inputs of the suite.
    """

    suite: str = ""
    case: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCases:
    """Reads cases from problems of benchdnn, commands of MIOpenDriver, or definitions.

    Attributes:
        form: Format of the text: benchdnn, miopen or json.
        text: The lines, at most 65536 characters and 400 lines.
        profile: Profile of the calls that problems and commands become; empty: ascend910b.
        fill: How inputs are drawn, such as integer, uniform or normal; empty: integer.
    """

    form: str = ""
    text: str = ""
    profile: str = ""
    fill: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInputs:
    """Returns an .npz file with the inputs of a case.

    Attributes:
        suite: Name of the suite.
        case: Id of the case.
        seed: Seed that draws the shapes and inputs of the suite.
        definition: Definition of a case of the caller's own, in place of suite and case.
    """

    suite: str = ""
    case: str = ""
    seed: int = 0
    definition: Definition = _NO_DEFINITION


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGolden:
    """Returns an .npz file with the expected value of each output and the magnitudes of its sums.

    Attributes:
        suite: Name of the suite.
        case: Id of the case.
        seed: Seed that draws the shapes and inputs of the suite.
        definition: Definition of a case of the caller's own, in place of suite and case.
    """

    suite: str = ""
    case: str = ""
    seed: int = 0
    definition: Definition = _NO_DEFINITION


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOutputs:
    """Returns the verdict on outputs sent before, by digest, or the names of outputs to send.

    Attributes:
        suite: Name of the suite.
        case: Id of the case.
        seed: Seed that draws the shapes and inputs of the suite.
        digests: SHA-256 of each output by its name, 64 hexadecimal digits.
        standards: Standards of vendors and libraries that are reported beside the layers, by name.
        gates: Those of them that fail an output which does not meet them.
        definition: Definition of a case of the caller's own, in place of suite and case.
    """

    suite: str = ""
    case: str = ""
    seed: int = 0
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    definition: Definition = _NO_DEFINITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Judges outputs of a case: arrays of an .npz file, and digests of outputs sent before.

    Attributes:
        suite: Name of the suite.
        case: Id of the case.
        seed: Seed that draws the shapes and inputs of the suite.
        code: Status with which the call was rejected, its name or number; empty: it was not
            rejected.
        digests: SHA-256 of outputs that the .npz lacks, by name.
        standards: Standards of vendors and libraries that are reported beside the layers, by name.
        gates: Those of them that fail an output which does not meet them.
        definition: Definition of a case of the caller's own, in place of suite and case.
    """

    suite: str = ""
    case: str = ""
    seed: int = 0
    code: str = ""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    definition: Definition = _NO_DEFINITION


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuite:
    """Tries a suite on devices of this service; returns at once.

    Attributes:
        suite: Name of the suite; with definitions, the caller's name for them.
        seed: Seed that draws the shapes and inputs of the suite.
        target: The caller's name for the target: letters, digits and ._:/@+-.
        profile: Only cases of this profile; empty: all.
        operator: Only cases of this operator; empty: all.
        match: Only cases whose id, source or tag matches this pattern (*, ?); empty: all.
        repeats: Equal calls of each case, whose bits must be equal, up to 10; 0: 1.
        standards: Standards of vendors and libraries that are reported beside the layers, by name.
        gates: Those of them that fail an output which does not meet them.
        deterministic_level: Level of the sessions: OFF, DETERMINISTIC, STRONG or BATCH; empty: OFF.
        definitions: Definitions of the caller's own cases, at most 400; empty: those of the suite.
        accuracy: Error bound of the sessions' results: direct or fast; empty: direct.
        documented_rules: Answer to calls that break a rule of the vendor's page alone: error or
            warn; empty: error.
    """

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
    accuracy: str = ""
    documented_rules: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRun:
    """Returns the state of a run, at once or at its end, after wait_s seconds at the latest.

    Attributes:
        run: Id of the run, or the name of a baseline.
        wait_s: Longest wait for the end of the run, seconds, up to 60.
    """

    run: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """Ends a run; results so far are kept.

    Attributes:
        run: Id of the run.
    """

    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuns:
    """Lists the tenant's runs, on one target or all, the newest first.

    Attributes:
        target: Only runs on this target; empty: all.
        cursor: Cursor of the previous page; empty: the newest runs.
        limit: Most runs of the page, up to 200; 0: 20.
    """

    target: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResults:
    """Lists the results of a run, with one status or any, in the suite's order.

    Attributes:
        run: Id of the run, or the name of a baseline.
        status: Only cases with this status, such as FAILED; empty: all.
        cursor: Cursor of the previous page; empty: the first page.
        limit: Most results of the page, up to 1000; 0: 100.
    """

    run: str = ""
    status: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRun:
    """Adds a run whose cases were tried and judged elsewhere: completely or not at all.

    Attributes:
        target: The caller's name for the target: letters, digits and ._:/@+-.
        suite: Name of the suite; the service need not have it.
        seed: Seed that drew the shapes and inputs of the suite.
        digest: Digest of the whole suite: "sha256:" and 64 hexadecimal digits.
        tool: Program that judged the outputs, and its version.
        results: Result of each case, in the order of the suite, each case once.
    """

    target: str = ""
    suite: str = ""
    seed: int = 0
    digest: str = ""
    tool: str = ""
    results: tuple[CaseResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBaseline:
    """Names a run that has ended, or moves a name to another run.

    Attributes:
        name: The name: letters, digits and ._+-, but not 16 hexadecimal digits.
        run: Id of the run, or the name of another baseline.
    """

    name: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBaselines:
    """Lists the tenant's baselines by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBaseline:
    """Removes a name; its run is kept as long as others of its age.

    Attributes:
        name: The name.
    """

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRuns:
    """Returns the differences between two runs, each named by its id or a baseline's name.

    Attributes:
        before: The earlier run: its id or the name of a baseline.
        now: The later run: its id or the name of a baseline.
    """

    before: str = ""
    now: str = ""


LONG_LISTS: Mapping[type, str] = {ReportRun: "results", RunSuite: "definitions"}
"""Members that make a message too long to be parsed in one iteration of the event loop."""
OfRun = RunSuite | GetRun | CancelRun | ListRuns | ListResults
OfHistory = ReportRun | SetBaseline | ListBaselines | DeleteBaseline | CompareRuns
OfAnyCase = GetInputs | GetGolden | SubmitOutputs | Verify
"""Requests on a case of a suite, or on a case of the caller's own, given by its definition."""


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
"""The calls without arrays: the class of each request, and that of its answer."""
