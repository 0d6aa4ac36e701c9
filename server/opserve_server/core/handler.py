"""Handlers of commands."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opserve_server.core.results import Result
from opserve_server.core.session import Session


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler of a command, with its properties.

    Attributes:
        run: Executes the command; raises OpserveError.
        new_work: Whether a draining service rejects the command: it makes a handle or queues a
            call.
        long: Whether it may take milliseconds, for page faults or planning; a batch yields to other
            calls after it.
        waits: Whether it may wait: for queued work, or for the turns of others.
    """

    run: Callable[[Session, Any], Awaitable[Result]]
    new_work: bool = False
    long: bool = False
    waits: bool = False


Handlers = Mapping[type[Any], Handler]
"""Handlers by the class of their command."""
