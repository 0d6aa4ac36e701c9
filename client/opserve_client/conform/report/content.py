"""Data of the report: an index of all cases in columns, and chunks with the details of each."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

from opserve_client.conform.known import Expectations
from opserve_client.conform.record import Result, RunRecord
from opserve_client.conform.report.words import places
from opserve_kernels.conformance.comparison import Change, Outcomes, change, compare
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.verdict import GOOD, Status

Json = dict[str, Any]

CHUNK_CASES = 32
"""Cases in a chunk, which a browser unpacks in some milliseconds when one of them is opened."""
MAPPED_CASES = 1000
"""Most cases with heat maps: with more, browsers would fail to open the file."""
_SUITES = frozenset(("smoke", "standard", "exhaustive"))
"""Suites with a name; others are files, whose paths a report does not contain."""
_DIGITS = 4  # of a used fraction in the table
_NAMED = ("status", "operator", "profile", "dtype", "kind", "change", "known")
_FAILS, _PASSES = "known failure", "known failure passes"


def index_of(run: RunRecord, baseline: Outcomes | None, expected: Expectations) -> Json:
    """Returns the data of the table of cases."""
    named = {name: _Names() for name in _NAMED}
    columns: dict[str, list[Any]] = {
        name: [] for name in (*_NAMED, "id", "worst", "before", "errors", "reason", "about")
    }
    for result in run.results:
        for name, value in _row(result, baseline, expected).items():
            columns[name].append(named[name].place(value) if name in named else value)
    header = run.header
    return {
        "target": header.target,
        "good": len(run.failures) == len(expected.failing),
        "conclusion": _conclusion(run, expected),
        "facts": list(_facts(run)),
        "baseline": None if baseline is None else _baseline_summary(baseline, run),
        "changes": [kind.value for kind in Change if kind],
        "knowns": [_FAILS, _PASSES],
        "chunk": CHUNK_CASES,
        "snippet": snippet_template(header.seed),
        "command": _command(run),
        "columns": columns,
        "names": {name: names.all for name, names in named.items()},
    }


def chunks_of(
    run: RunRecord, baseline: Outcomes | None, expected: Expectations
) -> Iterator[list[Json]]:
    """Yields chunks of the details of cases, in the index's order; correct outputs have no maps."""
    failing = [result.case.id for result in run.results if result.verdict.status not in GOOD]
    mapped = frozenset(failing[:MAPPED_CASES])
    for first in range(0, len(run.results), CHUNK_CASES):
        part = run.results[first : first + CHUNK_CASES]
        yield [
            _detail(result, baseline, maps=result.case.id in mapped) | _known(result, expected)
            for result in part
        ]


def snippet_template(seed: int) -> str:
    """Returns the template of a program that runs one case, without the case and its elements."""
    page = files("opserve_client.conform.report") / "page" / "snippet.txt"
    return page.read_text(encoding="utf-8").replace("@SEED@", str(seed))


class _Names:
    """Distinct texts with their indices."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def _row(result: Result, baseline: Outcomes | None, expected: Expectations) -> Json:
    case, verdict = result.case, result.verdict
    before = baseline.by_case.get(case.id) if baseline else None
    first = next(iter(case.tensors.values()), None)
    return {
        "id": case.id,
        "status": verdict.status.value,
        "operator": case.operator,
        "profile": case.profile,
        "dtype": first.dtype.name if first else "",
        "kind": "refused" if case.is_refused else case.kind.value,
        "change": change(before, result.outcome).value if baseline else "",
        "known": _FAILS * (case.id in expected.failing) or _PASSES * (case.id in expected.passing),
        "worst": _rounded(verdict.worst),
        "before": None if before is None else _rounded(before.worst),
        "errors": sum(output.errors for output in verdict.outputs),
        "reason": "; ".join((verdict.reason, *result.warnings)),
        "about": " ".join((*case.tags, case.source)),
    }


def _detail(result: Result, baseline: Outcomes | None, *, maps: bool) -> Json:
    before = baseline.by_case.get(result.case.id) if baseline else None
    verdict = result.verdict
    slim = tuple(one if maps and one.errors else replace(one, maps=()) for one in verdict.outputs)
    form = to_json(replace(verdict, outputs=slim))
    for output, shown in zip(verdict.outputs, form["outputs"], strict=True):
        shown["omitted"] = bool(output.errors and output.maps) and not maps
    return {
        "case": result.case.to_json(),
        "verdict": form,
        "places": [sentence for output in verdict.outputs for sentence in places(output)],
        "before": before and {"status": before.status.value, "worst": _rounded(before.worst)},
    }


def _known(result: Result, expected: Expectations) -> Json:
    """Returns the line of known failures that matches the case."""
    case = result.case.id
    line = expected.failing.get(case) or expected.passing.get(case)
    return {"known": line and line.text}


def _rounded(used: float) -> float | str:
    """Rounds a number; numbers that JSON cannot represent become strings, as in verdicts."""
    if not math.isfinite(used):
        return "NaN" if math.isnan(used) else "Infinity"
    return float(f"{used:.{_DIGITS}g}")


def _conclusion(run: RunRecord, expected: Expectations) -> str:
    failures, cases = len(run.failures), len(run.results)
    missing = run.header.cases - cases
    unfinished = f"; {missing} did not run" if missing else ""
    passed = run.tally.counts.get(Status.PASSED, 0)
    if failures:
        known = f", {len(expected.failing)} of them known failures" if expected.failing else ""
        return f"{failures} of {cases} cases failed{known}, {passed} passed{unfinished}"
    return f"{passed} of {cases} cases passed, none failed{unfinished}"


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    header = run.header
    yield "Target", header.target
    yield "Suite", header.suite
    yield "Seed", str(header.seed)
    yield "Cases", f"{len(run.results)} of {header.cases}"
    yield "Calls per case", str(header.repeats)
    yield "Accuracy", header.accuracy
    yield "Documented rules", header.documented_rules
    if header.kernel_variant:
        yield "Kernel variant", header.kernel_variant
    if warned := sum(bool(result.warnings) for result in run.results):
        yield "Accepted cases that break a rule of the vendor's page", str(warned)
    yield "Time in the target", f"{sum(result.seconds for result in run.results):.1f} s"
    yield "opserve", header.tool
    yield "Digest of the suite", header.digest
    contracts = (f"{name} {revision}" for name, revision in header.contracts.items())
    yield "Contracts", ", ".join(contracts)


def _baseline_summary(baseline: Outcomes, run: RunRecord) -> str:
    found = compare(baseline, run.outcomes)
    gone = f"; {found.missing} of them are not in this run" if found.missing else ""
    other = "" if found.same_suite else " It is of another suite."
    if not found.same_variant:
        other += " Its kernel variant is another."
    return f"The baseline has {len(baseline.by_case)} cases{gone}.{other}"


def _command(run: RunRecord) -> str:
    """Returns the command that runs a case again, without the case's id."""
    header = run.header
    suite = f" --suite {header.suite}" if header.suite in _SUITES else ""
    target = shlex.quote(header.target)
    options = f" --accuracy {header.accuracy}" if header.accuracy != "direct" else ""
    if header.documented_rules != "error":
        options += f" --documented-rules {header.documented_rules}"
    return f"opserve conform repro{suite} --seed {header.seed} --target {target}{options} --case"
