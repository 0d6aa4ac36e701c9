"""What a stream is given to do, and its place in the stream's queue."""

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
        executor: Handle of its executor.
        call: What the device runs.
        timeout_s: Seconds from now within which it must end; None: any time.
        done: Done when the device writes nothing of it any more, or never will.
    """

    executor: int
    call: KernelCall
    timeout_s: float | None = None
    done: asyncio.Future[None] = field(default_factory=_new_future)


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A record of an event, reached when all before it is over."""

    event: int
    record: Record


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A hold until a record of an event is done."""

    event: int
    record: Record


Work = KernelRun | Mark | Wait


@dataclass(slots=True, eq=False)
class Entry:
    """Work in a stream's queue, or at the device.

    Attributes:
        work: What is to be done.
        number: Which of the stream's entries it is, from 1.
        queued_s: When it was submitted, seconds of the event loop's clock.
        started_s: When it was given to the device, or a wait began; None before.
        kernel_s: Seconds that its kernel ran, without pauses; None where the device told none.
        deadline: Ends it; None where it has no deadline.
        stopped_by: What the device was told to stop it for, as synchronise will tell it.
        context: That of the call that submitted it, in which its work is done.
    """

    work: Work
    number: int
    queued_s: float
    started_s: float | None = None
    kernel_s: float | None = None
    deadline: asyncio.TimerHandle | None = None
    stopped_by: ExecutionFailed | None = None
    context: Context = field(default_factory=copy_context)
