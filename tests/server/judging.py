"""Conformance as the faces in a test have it; nobody asks it unless the test does."""

from pathlib import Path

from opserve_server.conformance.arbiter import Arbiter, ConformanceLimits
from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.history import History, HistoryLimits
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.core.service import Service
from opserve_server.npz import ArrayLimits
from opserve_server.store.runs import Runs

LIMITS = ConformanceLimits(
    elements=2**16,
    multiply_adds=10_000_000,
    arrays=ArrayLimits(arrays=3, unpacked_bytes=2**20),
    golden_folder=Path("/nonexistent"),
    golden_bytes=2**20,
    sent_bytes=2**20,
    sent_total_bytes=2**21,
)
HISTORY_LIMITS = HistoryLimits(runs=3, baselines=2, report_bytes=2**20)


def idle_conformance(service: Service) -> Conformance:
    """Without a process of its own while nothing is asked."""
    return conformance_of(service, Desk(1), None)


def conformance_of(
    service: Service, desk: Desk, kept: Runs | None, limits: ConformanceLimits = LIMITS
) -> Conformance:
    """With a history, unless it is None."""
    arbiter = Arbiter(service, limits)
    runs = SuiteRuns(service, desk, arbiter, kept, runs_limit=2, kept_limit=3)
    return Conformance(service, desk, arbiter, History(runs, desk, HISTORY_LIMITS))
