"""make bench-conformance: what conformance costs; writes benchmarks/out/conformance.json."""

from collections.abc import Callable, Sequence

from benchmarks.conformance_cases import case_goals
from benchmarks.conformance_report import report_goals
from benchmarks.report import Goal, show_goals, write_goals

PARTS: Sequence[Callable[[], Sequence[Goal]]] = (case_goals, report_goals)
"""What is measured, each part on its own."""


def main() -> None:
    """Measures, prints, and writes the goals."""
    goals = [goal for part in PARTS for goal in part()]
    show_goals(goals)
    write_goals("conformance", goals)


if __name__ == "__main__":
    main()
