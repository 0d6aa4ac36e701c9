"""A target that a command line names, and the failure that is none of its own."""

from typing import Protocol

from opserve_kernels.conformance.target import Target


class InfrastructureError(Exception):
    """Nothing can be said of a case: a service, a file or this program failed, not the target."""


class HeldTarget(Target, Protocol):
    """A target until it is closed; its coroutines wait for nothing (trial.at_once)."""

    def close(self) -> None:
        """Ends what the target holds."""
        ...
