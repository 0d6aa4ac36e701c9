"""Streams: ordered queues of work on the session's device."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from opserve_kernels.status import Status
from opserve_server.core.commands import FailureMode
from opserve_server.core.errors import ExecutionFailed, InvalidArgument, LimitExceeded
from opserve_server.core.events import Record
from opserve_server.pool.device import KernelFailed, WorkerDied
from opserve_server.pool.messages import KernelCall

log = logging.getLogger(__name__)


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class KernelRun:
    """An executed call, waiting for its turn on the device."""

    executor: int
    call: KernelCall
    done: asyncio.Future[None] = field(default_factory=_new_future)


@dataclass(slots=True, eq=False)
class Mark:
    """A record of an event."""

    record: Record

    @property
    def done(self) -> asyncio.Future[None]:
        """Done when the record is."""
        return self.record.done


@dataclass(slots=True, eq=False)
class Wait:
    """A hold until a record of another stream is done."""

    record: Record
    done: asyncio.Future[None] = field(default_factory=_new_future)


Work = KernelRun | Mark | Wait


class Stream:
    """Runs work in order, one after the other.

    Args:
        handle: Its handle.
        run_kernel: Runs a call on the device.
        queue_limit: Work that may wait at once.

    Attributes:
        error: The first failure that no synchronise has told yet.
        stopped: Whether a failure in STOP mode has ended all work on it.
    """

    def __init__(
        self,
        handle: int,
        *,
        run_kernel: Callable[[KernelCall], Awaitable[object]],
        queue_limit: int,
    ) -> None:
        self.handle = handle
        self.error: ExecutionFailed | None = None
        self.stopped = False
        self._mode: FailureMode | None = None
        self._run_kernel = run_kernel
        self._queue_limit = queue_limit
        self._queue: deque[Work] = deque()
        self._last: Work | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def complete(self) -> bool:
        """Whether all submitted work is done."""
        return self._last is None or self._last.done.done()

    @property
    def tail(self) -> asyncio.Future[None] | None:
        """Done when everything submitted so far is; None where nothing was."""
        return None if self._last is None else self._last.done

    def set_failure_mode(self, mode: FailureMode) -> None:
        """Sets what happens behind a failure; once.

        Raises:
            InvalidArgument: 107000, it was set before.
        """
        if self._mode is not None:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"mode: given {mode} for stream {self.handle}, whose mode was set before, "
                "allowed once for each stream",
                parameter="mode",
                given=mode,
                allowed="once for each stream",
            )
        self._mode = mode

    def check_room(self) -> None:
        """Refuses work that the queue has no room for (207014)."""
        if len(self._queue) >= self._queue_limit:
            raise LimitExceeded(
                Status.ACL_ERROR_RT_QUEUE_FULL,
                f"stream: given more work while {self._queue_limit} entries wait on stream "
                f"{self.handle}, allowed {self._queue_limit}",
                parameter="stream",
                given=self._queue_limit + 1,
                allowed=self._queue_limit,
            )

    def submit(self, work: Work) -> None:
        """Queues work behind all before it."""
        self.check_room()
        self._queue.append(work)
        self._last = work
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name=f"stream {self.handle}")

    def take_error(self) -> ExecutionFailed | None:
        """The first failure since the last call; a stopped stream keeps it."""
        error = self.error
        if not self.stopped:
            self.error = None
        return error

    async def close(self) -> None:
        """Drops queued work and waits for what is running; everything counts as done afterwards."""
        running = self._task
        dropped = list(self._queue)
        self._queue.clear()
        for work in dropped:
            _finish(work)
        if running is not None:
            await running

    async def _drain(self) -> None:
        try:
            while self._queue:
                await self._carry_out(self._queue.popleft())
        finally:
            self._task = None

    async def _carry_out(self, work: Work) -> None:
        if isinstance(work, Wait):
            await asyncio.wait([work.record.done])
        elif isinstance(work, KernelRun) and not self.stopped:
            await self._run(work)
        _finish(work)

    async def _run(self, work: KernelRun) -> None:
        try:
            await self._run_kernel(work.call)
        except (KernelFailed, WorkerDied) as failure:
            self._fail(work, failure)
        except Exception:
            log.exception("stream %d lost a call of executor %d", self.handle, work.executor)
            self._fail(work, None)

    def _fail(self, work: KernelRun, failure: KernelFailed | WorkerDied | None) -> None:
        reason = str(failure) if failure else "the service failed to run it"
        error = ExecutionFailed(
            f"executor {work.executor} ({work.call.operator}) failed on stream {self.handle}: "
            f"{reason}",
            executor=work.executor,
        )
        self.error = self.error or error
        if self._mode is FailureMode.STOP:
            self.stopped = True


def _finish(work: Work) -> None:
    if isinstance(work, Mark):
        work.record.reach()
    else:
        work.done.set_result(None)
