"""Conformance as the faces in a test have it; nobody asks it unless the test does."""

from pathlib import Path

from opserve_server.conformance.conformance import Conformance, ConformanceLimits
from opserve_server.conformance.desk import Desk
from opserve_server.core.service import Service
from opserve_server.npz import ArrayLimits

LIMITS = ConformanceLimits(
    elements=2**16,
    multiply_adds=10_000_000,
    arrays=ArrayLimits(arrays=3, unpacked_bytes=2**20),
    golden_folder=Path("/nonexistent"),
    golden_bytes=2**20,
)


def idle_conformance(service: Service) -> Conformance:
    """Without a process of its own while nothing is asked."""
    return Conformance(service, Desk(1), LIMITS)
