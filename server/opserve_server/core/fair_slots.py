"""Slots for work of the front process itself, shared fairly among tenants by weight."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from opserve_kernels.status import Status
from opserve_server.core.accounts import Account
from opserve_server.core.errors import LimitExceeded
from opserve_server.pool.fair_queue import FairQueue

_NS_PER_S = 1e9


@dataclass(slots=True, eq=False)
class _Queue:
    """The calls of one tenant.

    Attributes:
        waiting: One event for each waiting call, in order; set when the call gets a slot.
        running: Calls with a slot.
    """

    waiting: deque[asyncio.Event] = field(default_factory=deque[asyncio.Event])
    running: int = 0


class FairSlots:
    """A number of slots, each for one call at a time.

    A free slot goes to the tenant with the least slot time per weight; the calls of one tenant keep
    their order. One tenant never holds all slots, unless there is only one: a call of another
    tenant begins at once, however many calls the first one sends.

    Args:
        slots: Calls that run at once.
        waiting_limit: Calls of one tenant that wait at once.
    """

    def __init__(self, slots: int, *, waiting_limit: int) -> None:
        self._free = slots
        # One slot stays free for another tenant, which then never waits for a long call of the
        # first one.
        self._limit_of_tenant = max(slots - 1, 1)
        self._waiting_limit = waiting_limit
        self._queues: dict[str, _Queue] = {}
        self._fair_queue = FairQueue[str]()

    @asynccontextmanager
    async def slot(self, account: Account) -> AsyncGenerator[None]:
        """Acquires a slot for a tenant until the block ends; may wait.

        Raises:
            LimitExceeded: 207012, too many calls of the tenant wait.
        """
        name, loop = account.tenant.name, asyncio.get_running_loop()
        await self._acquire(name)
        began_s = loop.time()
        try:
            yield
        finally:
            # Charged even after an error: the slot was in use.
            used_ns = (loop.time() - began_s) * _NS_PER_S
            self._fair_queue.charge(name, used_ns, weight=account.tenant.weight)
            self._release(name)

    async def _acquire(self, name: str) -> None:
        queue = self._queues.setdefault(name, _Queue())
        self._fair_queue.join(name)
        granted = asyncio.Event()
        queue.waiting.append(granted)
        self._grant()
        try:
            # After _grant, so that a call that gets a slot at once never counts as waiting.
            if len(queue.waiting) > self._waiting_limit:
                raise _too_many(self._waiting_limit)
            await granted.wait()
        except (LimitExceeded, asyncio.CancelledError):
            if granted.is_set():  # granted and cancelled in the same iteration of the loop
                self._release(name)
            else:
                queue.waiting.remove(granted)
                # Otherwise the idle tenant would keep its place in the fair queue.
                self._forget(name)
            raise

    def _grant(self) -> None:
        while self._free and (name := self._next()) is not None:
            queue = self._queues[name]
            self._free -= 1
            queue.running += 1
            queue.waiting.popleft().set()

    def _next(self) -> str | None:
        candidates = [
            name
            for name, queue in self._queues.items()
            if queue.waiting and queue.running < self._limit_of_tenant
        ]
        return self._fair_queue.next(candidates) if candidates else None

    def _release(self, name: str) -> None:
        self._free += 1
        self._queues[name].running -= 1
        self._forget(name)
        self._grant()

    def _forget(self, name: str) -> None:
        """Removes a tenant without calls from the fair queue."""
        queue = self._queues.get(name)
        if queue is not None and not queue.waiting and not queue.running:
            del self._queues[name]
            self._fair_queue.leave(name)


def _too_many(limit: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"{limit} one-shot calls of this tenant wait already, its limit: send this one again when "
        "one of them has its answer.",
        parameter="one-shot calls",
        given=f"one more beside {limit} that wait",
        allowed=limit,
    )
