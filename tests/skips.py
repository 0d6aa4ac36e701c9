"""Skipped tests: named in one line at the end of a run, or failures where skips are forbidden."""

import os
from collections import Counter
from collections.abc import Generator

import pytest

FORBID = "OPSERVE_FORBID_SKIPS"
"""If this variable is set, a test that would be skipped fails."""
_PREFIX = "Skipped: "


def needs_program(name: str, *, there: bool, package: str) -> pytest.MarkDecorator:
    """Skips tests where a system program is missing; `package` is what apt-get installs."""
    return pytest.mark.skipif(not there, reason=f"{name} is missing (apt-get install {package})")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(FORBID):
        report.outcome = "failed"
        report.longrepr = f"skipped, which {FORBID} forbids: {_reason(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(map(_reason, terminalreporter.stats.get("skipped", [])))
    if reasons:
        summary = "; ".join(f"{count} tests: {reason}" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"not run here: {summary}")


def _reason(report: pytest.TestReport) -> str:
    place = report.longrepr
    return place[2].removeprefix(_PREFIX) if isinstance(place, tuple) else str(place)
