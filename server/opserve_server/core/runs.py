"""Runs of conformance suites, as they are reported and stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opserve_kernels.operator import Accuracy, DocumentedRules
from opserve_server.core.session import DeterministicLevel


class RunState(StrEnum):
    """State of a run."""

    RUNNING = "RUNNING"
    ENDED = "ENDED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


class Stage(StrEnum):
    """Stage of a run that is RUNNING."""

    WAITING = "WAITING"
    MAKING_SUITE = "MAKING_SUITE"
    TRYING = "TRYING"


class Origin(StrEnum):
    """Place where cases were tried and judged."""

    DEVICE = "DEVICE"
    REPORTED = "REPORTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A suite, tried on a target.

    Attributes:
        id: 16 random hexadecimal digits.
        tenant: Its tenant.
        target: The target, by the name that its tenant gave it.
        suite: Name of the suite.
        seed: Seed of the suite and of its inputs.
        digest: Digest of the whole suite; empty until the suite is made.
        profile: Selects cases of this profile; empty: of all.
        operator: Selects cases of this operator; empty: of all.
        match: Selects cases by id; empty: all.
        repeats: Equal calls of each case.
        standards: Reported beside the layers.
        gates: Standards that fail an output.
        deterministic_level: Deterministic level of the sessions.
        accuracy: Accuracy of the sessions.
        documented_rules: Answer to calls that break a rule of the vendor's page alone.
        state: State.
        reason: Reason of its end, unless it completed.
        cases: Selected cases; 0 until the suite is made.
        counts: Judged cases, by status.
        worst: The greatest used fraction of a tolerance among correct outputs.
        created_at: Time of its start, seconds since 1970.
        seen_at: Time of the latest write, seconds since 1970.
        ended_at: Time of its end, seconds since 1970; None while it runs.
        origin: On a device of the service, or elsewhere.
        tool: The tool that judged it elsewhere; empty for a run on a device.
        kernel_variant: Kernel variant of the devices; empty for a run elsewhere.
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
    kernel_variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A named run, which is never deleted automatically.

    Attributes:
        name: Its name.
        run: The run's id.
        set_at: Time at which it got the name, seconds since 1970.
    """

    name: str
    run: str
    set_at: float
