"""Events: markers in the order of a stream."""

import asyncio
from dataclasses import dataclass, field

from opserve_kernels.status import Status
from opserve_server.core.errors import WrongState


@dataclass(slots=True, eq=False)
class Record:
    """One recording of an event; done when its stream reaches it, at a time in seconds."""

    done: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    time_s: float = 0.0

    def reach(self) -> None:
        """Marks the record as reached by its stream."""
        self.time_s = asyncio.get_running_loop().time()
        self.done.set_result(None)


@dataclass(slots=True, eq=False)
class Event:
    """An event and its latest record; None before the first."""

    handle: int
    latest: Record | None = None

    @property
    def complete(self) -> bool:
        """Whether the latest record is done; an event that was never recorded is complete."""
        return self.latest is None or self.latest.done.done()


def elapsed_ms(start: Event, end: Event) -> float:
    """Milliseconds from start to end; negative where end came first.

    Raises:
        WrongState: 507000, an event was never recorded; 107006, a record is not done.
    """
    for parameter, event in (("start", start), ("end", end)):
        _check_recorded(parameter, event)
    return (_time_s("end", end) - _time_s("start", start)) * 1000.0


def _check_recorded(parameter: str, event: Event) -> None:
    if event.latest is None:
        raise WrongState(
            Status.ACL_ERROR_RT_INTERNAL_ERROR,
            f"{parameter} is event {event.handle}, which was never recorded: record it first.",
            parameter=parameter,
            given=event.handle,
            allowed="a recorded event",
        )


def _time_s(parameter: str, event: Event) -> float:
    assert event.latest is not None, "_check_recorded comes first"
    if not event.complete:
        raise WrongState(
            Status.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
            f"{parameter} is event {event.handle}, which its stream has not reached yet: "
            "synchronize first.",
            parameter=parameter,
            given=event.handle,
            allowed="a complete event",
        )
    return event.latest.time_s
