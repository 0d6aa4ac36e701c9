"""A run as OpenMetrics text, which GitLab shows beside a merge request's figures."""

from collections import Counter
from collections.abc import Iterator

from opserve_client.conform.record import RunRecord
from opserve_kernels.verdict.verdict import Status


def metrics(run: RunRecord) -> str:
    """Cases by operator and status, and the worst used fraction of right ones by operator."""
    return "".join(_lines(run))


def _lines(run: RunRecord) -> Iterator[str]:
    counts = Counter((result.case.operator, result.verdict.status) for result in run.results)
    operators = sorted({operator for operator, _ in counts})
    yield "# TYPE opserve_conformance_cases gauge\n"
    yield "# HELP opserve_conformance_cases Cases by operator and status.\n"
    for operator in operators:
        for status in Status:
            labels = f'operator="{operator}",status="{status.value}"'
            yield f"opserve_conformance_cases{{{labels}}} {counts[operator, status]}\n"
    yield "# TYPE opserve_conformance_worst_used gauge\n"
    yield "# HELP opserve_conformance_worst_used Worst used fraction of the tolerance, if passed.\n"
    passed = [one for one in run.results if one.verdict.status is Status.PASSED]
    for operator in operators:
        of_it = (one.verdict for one in passed if one.case.operator == operator)
        worst = max((verdict.worst for verdict in of_it), default=0.0)
        yield f'opserve_conformance_worst_used{{operator="{operator}"}} {worst:.4g}\n'
    yield "# EOF\n"
