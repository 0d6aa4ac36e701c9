"""Work of a stream, and its entry in the stream's queue."""

import asyncio
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from opserve_server.core.errors import ExecutionFailed
from opserve_server.core.events import Record
from opserve_server.pool.messages import KernelCall


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class KernelRun:
    """An executed call.

    Attributes:
        executor: Handle of its executor; 0: a whole call, which reports its failure itself.
        call: The call for the device.
        timeout_s: Seconds from now within which it must end; None: any time.
        error: Its failure, once it is done; None where it succeeded.
        done: Done when the device will write none of its bytes any more.
    """

    executor: int
    call: KernelCall
    timeout_s: float | None = None
    error: ExecutionFailed | None = None
    done: asyncio.Future[None] = field(default_factory=_new_future)


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A record of an event, reached when all earlier work is over."""

    event: int
    record: Record


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A wait until a record of an event is done."""

    event: int
    record: Record


Work = KernelRun | Mark | Wait


@dataclass(slots=True, eq=False)
class Entry:
    """Work in a stream's queue, or at the device.

    Attributes:
        work: The work.
        number: Number among the stream's entries, from 1.
        queued_s: Time of submission, seconds of the event loop's clock.
        started_s: Time at which it went to the device, or a wait began; None before.
        kernel_s: Seconds that its kernel ran, without pauses; None where the device reported none.
        deadline: Timer of its deadline; None where it has no deadline.
        stopped_by: Error for which the device was requested to stop it; synchronise raises it.
        context: Context of the call that submitted it, in which its work is observed.
    """

    work: Work
    number: int
    queued_s: float
    started_s: float | None = None
    kernel_s: float | None = None
    deadline: asyncio.TimerHandle | None = None
    stopped_by: ExecutionFailed | None = None
    context: Context = field(default_factory=copy_context)
