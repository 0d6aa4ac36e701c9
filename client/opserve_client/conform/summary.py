"""The summary of a run: counts, failures, known failures and the exit code."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from opserve_client.conform.known import NOTHING_KNOWN, Expectations, Known
from opserve_client.conform.record import Result, RunRecord
from opserve_kernels.conformance.comparison import Comparison
from opserve_kernels.status import ExitStatus
from opserve_kernels.verdict.verdict import Status

_LEFT_OUT = {Status.SKIPPED, Status.UNIMPLEMENTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The summary of a run.

    Attributes:
        record: The run.
        expectations: Known failures of the run.
        comparison: Comparison with a baseline; None without one.
    """

    record: RunRecord
    expectations: Expectations = NOTHING_KNOWN
    comparison: Comparison | None = None

    @property
    def failures(self) -> tuple[Result, ...]:
        """The failures that no line of known failures matches."""
        known = self.expectations.failing
        return tuple(one for one in self.record.failures if one.case.id not in known)

    @property
    def excused(self) -> tuple[Result, ...]:
        """Those of the failures that the baseline has, too: they do not fail the run."""
        if self.comparison is None:
            return ()
        newly = set(self.comparison.new_failures)
        return tuple(one for one in self.failures if one.case.id not in newly)

    @property
    def decisive(self) -> tuple[Result, ...]:
        """Those of the failures that fail the run."""
        excused = {one.case.id for one in self.excused}
        return tuple(one for one in self.failures if one.case.id not in excused)

    @property
    def known(self) -> tuple[Result, ...]:
        """Failures that are known."""
        known = self.expectations.failing
        return tuple(one for one in self.record.failures if one.case.id in known)

    @property
    def unexpected(self) -> tuple[Known, ...]:
        """Known failures with cases in the run of which none failed: XPASS."""
        return self.expectations.unexpected

    @property
    def warned(self) -> tuple[Result, ...]:
        """Cases with accepted calls that break rules of the vendor's page."""
        return tuple(one for one in self.record.results if one.warnings)

    @property
    def judged(self) -> tuple[Result, ...]:
        """Cases with a verdict: the target implements them."""
        return tuple(one for one in self.record.results if one.verdict.status not in _LEFT_OUT)

    @property
    def counts(self) -> str:
        """Describes the cases with a verdict by status, and those left out of the same operators.

        A function of one operator is not implemented for the others: their cases are no result.
        """
        judged, everything = self.judged, self.record.results
        operators = {one.case.operator for one in judged} or {
            one.case.operator for one in everything
        }
        left_out = [
            one
            for one in everything
            if one.verdict.status in _LEFT_OUT and one.case.operator in operators
        ]
        cases = f"{len(everything)} case{'s' * (len(everything) != 1)}"
        if len(judged) < len(everything):
            apply = "applies" if len(judged) == 1 else "apply"
            cases = f"{len(judged)} of {cases} {apply} to your kernel"
        parts = [f"{cases}: {_by_status(judged)}"] if judged else [cases]
        if left_out:
            of = " of the same operator" if len(operators) == 1 and judged else ""
            parts.append(f"not run{of}: {_by_status(left_out)}")
        return "; ".join(parts)

    @property
    def largest_error(self) -> str:
        """Describes the largest error: of the failed cases, or of the passed ones if none failed.

        "" where these have no outputs to compare.
        """
        failed = [one.verdict.worst for one in self.record.failures if one.verdict.worst > 1]
        if failed:
            return error_words(max(failed))
        if self.record.failures or not self.record.tally.counts[Status.PASSED]:
            return ""
        return error_words(self.record.tally.worst)

    @property
    def is_judged(self) -> bool:
        """Whether at least one case has a verdict."""
        return bool(self.judged)

    @property
    def exit_code(self) -> int:
        """1 if a case failed; with a baseline, if one newly failed or was newly skipped.

        2 if no case has a verdict, unless that is worse than the baseline.
        """
        newly_skipped = () if self.comparison is None else self.comparison.newly_skipped
        if self.decisive or newly_skipped:
            return ExitStatus.FAILED
        return ExitStatus.DONE if self.is_judged else ExitStatus.UNUSABLE

    def to_json(self) -> dict[str, Any]:
        """Returns the summary for programs, as --json prints it."""
        header, tally = self.record.header, self.record.tally
        return {
            "suite": header.suite,
            "digest": header.digest,
            "seed": header.seed,
            "target": header.target,
            "accuracy": header.accuracy,
            "documented_rules": header.documented_rules,
            "kernel_variant": header.kernel_variant,
            "contracts": dict(header.contracts),
            "cases": len(self.record.results),
            "counts": dict(sorted(tally.counts.items())),
            "worst": tally.worst,
            "failures": [_entry(result) for result in self.failures],
            "known_failures": [_entry(result) for result in self.known],
            "unexpected_passes": [one.pattern for one in self.unexpected],
            "unmatched_known_failures": [one.pattern for one in self.expectations.unmatched],
            "failures_of_baseline": [one.case.id for one in self.excused],
            "warnings": [
                {"case": one.case.id, "warnings": list(one.warnings)} for one in self.warned
            ],
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "exit_code": self.exit_code,
        }


def error_words(worst: float) -> str:
    """Describes the largest error, a fraction of the tolerance."""
    if worst == 0:
        return "largest error: 0"
    if worst == inf:
        return "largest error: infinite, because a wrong element has no tolerance"
    unit = "of" if worst <= 1 else "times"
    return f"largest error: {worst:.3g} {unit} its tolerance"


def _by_status(results: Sequence[Result]) -> str:
    counts = Counter(one.verdict.status for one in results)
    named = ((status.value.lower().replace("_", " "), counts[status]) for status in Status)
    return ", ".join(f"{n} {name}" for name, n in named if n)


def _entry(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    return {"case": verdict.case, "status": verdict.status.value, "reason": verdict.reason}
