"""Conformance services for tests of the APIs."""

from pathlib import Path

from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.history import History, HistoryLimits
from opserve_server.conformance.reference import ConformanceLimits, ReferenceDevice
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.service import Service
from opserve_server.npz import ArrayLimits
from opserve_server.store.runs import Runs

LIMITS = ConformanceLimits(
    elements=2**16,
    multiply_adds=10_000_000,
    arrays=ArrayLimits(arrays=3, unpacked_bytes=2**20),
    expected_values_folder=Path("/nonexistent"),
    expected_values_bytes=2**20,
    sent_bytes=2**20,
    sent_total_bytes=2**21,
)
HISTORY_LIMITS = HistoryLimits(runs=3, baselines=2, report_bytes=2**20)


def idle_conformance(service: Service) -> Conformance:
    """A conformance service that starts no process before its first call."""
    return conformance_of(service, ConformanceWorkers(1), None)


def conformance_of(
    service: Service,
    workers: ConformanceWorkers,
    kept: Runs | None,
    limits: ConformanceLimits = LIMITS,
) -> Conformance:
    """With a history, unless it is None."""
    reference = ReferenceDevice(service, limits)
    runs = SuiteRuns(service, workers, reference, kept, runs_limit=2, kept_limit=3)
    return Conformance(service, workers, reference, History(runs, workers, HISTORY_LIMITS))
