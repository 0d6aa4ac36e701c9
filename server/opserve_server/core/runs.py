"""Runs of conformance suites, as they are told and kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opserve_kernels.operator import Accuracy, DocumentedRules
from opserve_server.core.session import DeterministicLevel


class RunState(StrEnum):
    """How far a run is."""

    RUNNING = "RUNNING"
    ENDED = "ENDED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


class Stage(StrEnum):
    """What is done of a run that is RUNNING."""

    WAITING = "WAITING"
    MAKING_SUITE = "MAKING_SUITE"
    TRYING = "TRYING"


class Origin(StrEnum):
    """Where cases were tried and judged."""

    DEVICE = "DEVICE"
    REPORTED = "REPORTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A suite, tried on a target.

    Attributes:
        id: 16 random hexadecimal digits.
        tenant: Whose.
        target: What was tried, by the name that its tenant gave it.
        suite: Its name.
        seed: That it was made and inputs were drawn by.
        digest: Of the whole suite; empty until it is made.
        profile: Only cases of this one; empty means of all.
        operator: Only cases of this one; empty means of all.
        match: Only cases like it; empty means all.
        repeats: Equal calls of each case.
        standards: Told beside the layers.
        gates: Those of them that fail an output.
        deterministic_level: Of the sessions.
        accuracy: Of their results.
        documented_rules: Their answer to calls that break a rule of the vendor's page alone.
        state: How far it is.
        reason: Why it ended, unless it came to its end.
        cases: How many are chosen; 0 until the suite is made.
        counts: Cases that are judged, by status.
        worst: The greatest used fraction of a tolerance among outputs that are right.
        created_at: When it began, seconds since 1970.
        seen_at: When it was written last.
        ended_at: When it ended; None while it runs.
        origin: On a device of the service, or elsewhere.
        tool: What judged it elsewhere; empty of one on a device.
    """

    id: str
    tenant: str
    target: str
    suite: str
    seed: int
    digest: str = ""
    profile: str = ""
    operator: str = ""
    match: str = ""
    repeats: int = 1
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    deterministic_level: DeterministicLevel = DeterministicLevel.OFF
    accuracy: Accuracy = Accuracy.DIRECT
    documented_rules: DocumentedRules = DocumentedRules.ERROR
    state: RunState = RunState.RUNNING
    reason: str = ""
    cases: int = 0
    counts: Mapping[str, int]
    worst: float = 0.0
    created_at: float
    seen_at: float
    ended_at: float | None = None
    origin: Origin = Origin.DEVICE
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A run by a name, which is not forgotten.

    Attributes:
        name: It.
        run: The run's id.
        set_at: When it got the name, seconds since 1970.
    """

    name: str
    run: str
    set_at: float
