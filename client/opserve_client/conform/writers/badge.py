"""Badges of runs: JSON for the endpoint badge of shields.io."""

import json

from opserve_client.conform.record import RunRecord
from opserve_kernels.verdict.verdict import Status


def badge(run: RunRecord) -> str:
    """Returns the badge's JSON: the number of failed cases, or else of passed ones."""
    failures, passed = len(run.failures), run.tally.counts.get(Status.PASSED, 0)
    message = f"{failures} failed" if failures else f"{passed} passed"
    form = {
        "schemaVersion": 1,
        "label": f"opserve {run.header.suite}",
        "message": message if run.results else "no cases",
        "color": "red" if failures else "brightgreen" if passed else "lightgrey",
    }
    return json.dumps(form) + "\n"
