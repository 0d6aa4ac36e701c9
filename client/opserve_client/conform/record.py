"""The record of a run: JSON lines, a header first and then a line for each case that is judged.

A line is written whole as soon as its case is judged; a run that was cut off goes on behind them.
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
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.verdict.json_form import from_json, to_json
from opserve_kernels.verdict.verdict import GOOD, Verdict

FORM = 1  # of the record; a reader refuses others
RECORD_NAME = "record.jsonl"  # in the folder of a run


class RecordError(Exception):
    """A record cannot be read; the message says which, where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a run was made with: runs with equal headers judged the same thing.

    Attributes:
        tool: Version of opserve.
        suite: Name of the suite.
        digest: Of the whole suite, "sha256:...".
        cases: How many of its cases were chosen.
        chosen: Digest of their ids.
        seed: That inputs were drawn by.
        target: What was tried, as it was named.
        contracts: Revision of each operator's contract, by operator.
        repeats: Times that each call was made.
        accuracy: Error bound of the sessions' results.
        documented_rules: Answer to calls that break a rule of the vendor's page alone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a case.

    Attributes:
        case: The case.
        verdict: On it.
        seconds: That the target took for one call; 0 where there was none.
        warnings: Broken rules of the vendor's page, of a call that was accepted all the same.
    """

    case: Case
    verdict: Verdict
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What another run is compared with."""
        return Outcome(status=self.verdict.status, worst=self.verdict.worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: its header, and what is judged so far.

    Attributes:
        header: What it was made with.
        results: In the order of the suite, once it has ended.
    """

    header: Header
    results: tuple[Result, ...]

    @property
    def tally(self) -> Tally:
        """Its counts."""
        return Tally.of(result.outcome for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The cases that fail the run."""
        return tuple(one for one in self.results if one.verdict.status not in GOOD)

    @property
    def outcomes(self) -> Outcomes:
        """What another run is compared with."""
        by_case = {result.case.id: result.outcome for result in self.results}
        return Outcomes(digest=self.header.digest, by_case=by_case)


def header_line(header: Header) -> str:
    """The first line of a record."""
    return _line({"record": FORM, **asdict(header)})


def result_line(result: Result) -> str:
    """A line of a record; of outputs that are right, no maps."""
    verdict = to_json(slim(result.verdict))
    form = {"case": result.case.to_json(), "seconds": result.seconds, "verdict": verdict}
    return _line({**form, "warnings": result.warnings} if result.warnings else form)


def write_record(record: RunRecord, path: Path) -> None:
    """The whole record, in a file of its own."""
    lines = [header_line(record.header), *map(result_line, record.results)]
    path.write_text("".join(lines), encoding="utf-8")


def record_path(place: Path) -> Path:
    """The record of a run, by its folder or itself."""
    return place / RECORD_NAME if place.is_dir() else place


def read_record(path: Path) -> RunRecord:
    """The record in a file; a last line that was cut off is left out.

    Raises:
        RecordError: It is none, or of another form.
        OSError: The file cannot be read.
    """
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    if not lines:
        raise RecordError(f"{path}: no record: no whole line")
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
        raise RecordError(f"{place}: an object is needed")
    return cast("dict[str, Any]", value)


def _header(form: dict[str, Any], place: str) -> Header:
    if form.pop("record", None) != FORM:
        raise RecordError(f"{place}: no record of form {FORM}")
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
