"""make bench-conformance: costs of conformance runs; writes benchmarks/out/conformance.json."""

from collections.abc import Callable, Sequence

from benchmarks.conformance_cases import case_goals
from benchmarks.conformance_report import report_goals
from benchmarks.report import Goal, show_goals, write_goals

PARTS: Sequence[Callable[[], Sequence[Goal]]] = (case_goals, report_goals)
"""The measurements, in order."""


def main() -> None:
    """Measures, prints, and writes the goals."""
    goals = [goal for part in PARTS for goal in part()]
    show_goals(goals)
    write_goals("conformance", goals)


if __name__ == "__main__":
    main()
