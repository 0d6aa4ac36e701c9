"""OpenMetrics text of runs, for the metrics report of GitLab merge requests."""

from collections.abc import Iterator

from opserve_client.conform.record import RunRecord
from opserve_kernels.conformance.record import Tally
from opserve_kernels.verdict.verdict import Status


def metrics(run: RunRecord) -> str:
    """Returns the cases by operator and status, and the worst used fraction of passed ones."""
    return "".join(_lines(run))


def _lines(run: RunRecord) -> Iterator[str]:
    tallies = {name: Tally() for name in sorted({result.case.operator for result in run.results})}
    for result in run.results:
        tallies[result.case.operator].add(result.outcome)
    yield "# TYPE opserve_conformance_cases gauge\n"
    yield "# HELP opserve_conformance_cases Cases by operator and status.\n"
    for operator, tally in tallies.items():
        for status in Status:
            labels = f'operator="{operator}",status="{status.value}"'
            yield f"opserve_conformance_cases{{{labels}}} {tally.counts[status]}\n"
    yield "# TYPE opserve_conformance_worst_used gauge\n"
    yield "# HELP opserve_conformance_worst_used Worst used fraction of the tolerance, if passed.\n"
    for operator, tally in tallies.items():
        yield f'opserve_conformance_worst_used{{operator="{operator}"}} {tally.worst:.4g}\n'
    yield "# EOF\n"
