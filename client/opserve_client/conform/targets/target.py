"""The interface of named targets, and the error of everything but the target."""

from typing import Protocol

from opserve_kernels.conformance.target import Target


class InfrastructureError(Exception):
    """A case without a verdict: a service, a file or this program failed, not the target."""


class ClosableTarget(Target, Protocol):
    """A target with resources to close; its coroutines never wait (trial.at_once)."""

    def close(self) -> None:
        """Releases the resources."""
        ...
