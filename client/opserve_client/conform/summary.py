"""What a run comes to: counts, failures, known ones, and the exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opserve_client.conform.compare import Comparison
from opserve_client.conform.record import GOOD, Result, RunRecord
from opserve_client.conform.selection import matches
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.verdict.verdict import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A line of known failures.

    Attributes:
        pattern: Of cases (selection.matches).
        reason: Behind the #.
    """

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run comes to.

    Attributes:
        record: The run.
        failures: The cases that fail it.
        known: Failures that were known.
        unexpected: Known failures of which a case was tried and all that were tried passed: XPASS.
        comparison: With a baseline, if there is one.
    """

    record: RunRecord
    failures: tuple[Result, ...]
    known: tuple[Result, ...]
    unexpected: tuple[Known, ...]
    comparison: Comparison | None

    @property
    def exit_code(self) -> int:
        """1 if a case failed; beside a baseline, if one newly failed or was newly left out."""
        if self.comparison is not None:
            failing = {result.case.id for result in self.failures}
            newly = failing & set(self.comparison.new_failures)
            return int(bool(newly) or bool(self.comparison.newly_skipped))
        return int(bool(self.failures))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        header = self.record.header
        return {
            "suite": header.suite,
            "digest": header.digest,
            "seed": header.seed,
            "target": header.target,
            "contracts": dict(header.contracts),
            "cases": len(self.record.results),
            "counts": {status.value: n for status, n in sorted(self.record.counts.items())},
            "worst": worst_of(self.record),
            "failures": [_told(result) for result in self.failures],
            "known_failures": [_told(result) for result in self.known],
            "unexpected_passes": [one.pattern for one in self.unexpected],
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "exit_code": self.exit_code,
        }


def summarise(
    record: RunRecord, *, known: Sequence[Known] = (), comparison: Comparison | None = None
) -> Summary:
    """What a run comes to, beside what was known before."""
    patterns = [one.pattern for one in known]
    expected = tuple(one for one in record.failures if matches(one.case, patterns))
    expected_ids = {one.case.id for one in expected}
    return Summary(
        record=record,
        failures=tuple(one for one in record.failures if one.case.id not in expected_ids),
        known=expected,
        unexpected=tuple(one for one in known if _passes(record, one.pattern)),
        comparison=comparison,
    )


def read_known(path: Path) -> tuple[Known, ...]:
    """Known failures in a file: a pattern on each line, and behind a # why.

    Raises:
        InfrastructureError: The file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InfrastructureError(f"known failures: {path}: {error}") from error
    parts = [line.partition("#") for line in lines]
    return tuple(
        Known(pattern=pattern.strip(), reason=reason.strip())
        for pattern, _, reason in parts
        if pattern.strip()
    )


def worst_of(record: RunRecord) -> float:
    """The greatest used fraction of a tolerance among outputs that are right."""
    passed = (one for one in record.results if one.verdict.status is Status.PASSED)
    return max((one.worst for one in passed), default=0.0)


def _passes(record: RunRecord, pattern: str) -> bool:
    tried = [one for one in record.results if matches(one.case, [pattern])]
    has_failed = any(one.verdict.status not in GOOD for one in tried)
    return not has_failed and any(one.verdict.status is Status.PASSED for one in tried)


def _told(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    return {"case": verdict.case, "status": verdict.status.value, "reason": verdict.reason}
