"""What carries out a command."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opserve_server.core.results import Result
from opserve_server.core.session import Session


@dataclass(frozen=True, slots=True)
class Handler:
    """What carries out a command, and how it is taken.

    Attributes:
        run: Carries it out; raises OpserveError.
        new_work: Whether a service that drains refuses it: it makes a handle, or queues a call.
        long: Whether it may take milliseconds, to make pages or to plan; others have their turn
            behind it.
    """

    run: Callable[[Session, Any], Awaitable[Result]]
    new_work: bool = False
    long: bool = False


Handlers = Mapping[type[Any], Handler]
"""Handlers by the class of their command."""
