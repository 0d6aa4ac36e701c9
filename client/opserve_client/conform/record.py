"""Records of runs: JSON lines, first a header and then a line for each judged case.

Each line is written at once when its case is judged, so an interrupted run can resume after them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from opserve_client.arguments import AccuracyName, DocumentedRulesName
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.reading import case_of
from opserve_kernels.conformance.comparison import Outcome, Outcomes
from opserve_kernels.conformance.record import Tally, slim
from opserve_kernels.errors import InvalidArgument, rejection
from opserve_kernels.verdict.json_form import from_json, to_json
from opserve_kernels.verdict.verdict import GOOD, Verdict

FORM = 1
"""Version of the record's format; a reader rejects others."""
RECORD_NAME = "record.jsonl"
"""File name in the folder of a run."""


class RecordError(Exception):
    """A record that cannot be read; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The setup of a run; runs with equal headers are comparable and can resume each other.

    Attributes:
        tool: Version of opserve.
        suite: Name of the suite.
        digest: Digest of the whole suite, "sha256:...".
        cases: Number of selected cases.
        chosen: Digest of their ids.
        seed: Seed of the inputs.
        target: Name of the target.
        contracts: Revision of each operator's contract, by operator.
        repeats: Calls of each case.
        accuracy: Error bound of the sessions' results.
        documented_rules: Answer to calls that break a rule of the vendor's page alone.
        kernel_variant: Kernel variant of the devices of opserve; empty of other targets.
    """

    tool: str
    suite: str
    digest: str
    cases: int
    chosen: str
    seed: int
    target: str
    contracts: Mapping[str, str]
    repeats: int = 1
    accuracy: AccuracyName = "direct"
    documented_rules: DocumentedRulesName = "error"
    kernel_variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a case.

    Attributes:
        case: The case.
        verdict: The verdict on it.
        seconds: Seconds of one call of the target; 0 without a call.
        warnings: Rules of the vendor's page that an accepted call breaks.
    """

    case: Case
    verdict: Verdict
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The part of the result that runs are compared by."""
        return Outcome(status=self.verdict.status, worst=self.verdict.worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: its header and its results so far.

    Attributes:
        header: Setup of the run.
        results: Results, in the suite's order when the run has ended.
    """

    header: Header
    results: tuple[Result, ...]

    @property
    def tally(self) -> Tally:
        """Counts of the results by status."""
        return Tally.of(result.outcome for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """Results of the cases that fail the run."""
        return tuple(one for one in self.results if one.verdict.status not in GOOD)

    @property
    def outcomes(self) -> Outcomes:
        """The part of the run that runs are compared by."""
        by_case = {result.case.id: result.outcome for result in self.results}
        header = self.header
        return Outcomes(digest=header.digest, by_case=by_case, kernel_variant=header.kernel_variant)


def header_line(header: Header) -> str:
    """Returns the first line of a record."""
    return _line({"record": FORM, **asdict(header)})


def result_line(result: Result) -> str:
    """Returns the line of a result in a record."""
    return _line(result_form(result))


def result_form(result: Result) -> dict[str, Any]:
    """Returns a result as a JSON object; correct outputs have no maps in it."""
    verdict = to_json(slim(result.verdict))
    form = {"case": result.case.to_json(), "seconds": result.seconds, "verdict": verdict}
    return {**form, "warnings": result.warnings} if result.warnings else form


def write_record(record: RunRecord, path: Path) -> None:
    """Writes a whole record to a file."""
    lines = [header_line(record.header), *map(result_line, record.results)]
    path.write_text("".join(lines), encoding="utf-8")


def record_path(place: Path) -> Path:
    """Returns the path of a record from its folder or its file."""
    return place / RECORD_NAME if place.is_dir() else place


def read_record(path: Path) -> RunRecord:
    """Reads the record in a file; ignores an incomplete last line.

    Raises:
        RecordError: The file is no record, or of another version.
        OSError: The file cannot be read.
    """
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    if not lines:
        raise RecordError(f"{path}: no record: the file has no complete line")
    header = _header(_object(lines[0], f"{path}: line 1"), f"{path}: line 1")
    results = [_result(line, f"{path}: line {n}") for n, line in enumerate(lines[1:], 2)]
    return RunRecord(header=header, results=tuple(results))


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n"


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        value: object = json.loads(line)
    except ValueError as error:
        raise RecordError(f"{place}: no JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError(rejection(place, given=type(value).__name__, allowed="a JSON object"))
    return cast("dict[str, Any]", value)


def _header(form: dict[str, Any], place: str) -> Header:
    if form.pop("record", None) != FORM:
        raise RecordError(f"{place}: no record of version {FORM}")
    try:
        return Header(**form)
    except TypeError as error:
        raise RecordError(f"{place}: {error}") from error


def _result(line: str, place: str) -> Result:
    form = _object(line, place)
    try:
        case = case_of(form["case"], "case")
        verdict = from_json(form["verdict"])
        seconds, warnings = float(form["seconds"]), tuple(map(str, form.get("warnings", ())))
        return Result(case=case, verdict=verdict, seconds=seconds, warnings=warnings)
    except (KeyError, TypeError, ValueError, InvalidArgument) as error:
        raise RecordError(f"{place}: {error!r}") from error
