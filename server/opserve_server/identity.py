"""What the guard knows and what it saw, kept in step with the store."""

import asyncio
import logging
import time
from collections.abc import Callable

from opserve_server.core.audit import RefusedCalls
from opserve_server.core.directory import Directory
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.service import Service
from opserve_server.guard import Guard
from opserve_server.store.store import Store

USES_INTERVAL_S = 30.0
"""Seconds between two times that device time and last uses of keys are written down; a service that
is killed forgets what it did not write. No setting: fewer would lose more of a day's quota at a
kill, and one small transaction in so long costs nobody anything."""
FORGETTING_INTERVAL_S = 3600.0
"""Seconds between two times that old entries of the audit are forgotten: days are counted."""
_DAY_S = 86_400.0

log = logging.getLogger(__name__)


class Identity:
    """Brings the guard what is in the store, and the store what the guard saw.

    While the store does not answer, or its file is gone, keys known before go on to work, nothing
    is changed, and a guard never falls back to calls without keys.

    Args:
        guard: Decides who may call.
        service: Ends the sessions of tenants that are gone or disabled, and counts their usage.
        store: Knows who may.
        refused: Refused callers that the store is to keep.
        audit_retention_days: For how long it keeps the audit.
        clock: Seconds since 1970.

    Attributes:
        store: Knows who may.
    """

    def __init__(
        self,
        guard: Guard,
        service: Service,
        store: Store,
        refused: RefusedCalls,
        *,
        audit_retention_days: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._guard = guard
        self._service = service
        self.store = store
        self._refused = refused
        self._retention_s = audit_retention_days * _DAY_S
        self._clock = clock
        self._store_answered = True
        self._failures = 0
        self._refreshing = asyncio.Lock()

    def failures(self) -> int:
        """Refreshes that failed since the start."""
        return self._failures

    async def refresh(self) -> Directory:
        """Knows who may call as it is now; asked for at once after a change.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        async with self._refreshing:  # what was read first never takes the place of what is newer
            directory = await self.store.directory()
            self._service.renew_tenants(directory.tenants.values())
            self._guard.refresh(directory)
            return directory

    async def keep(self, *, interval_s: float) -> None:
        """Keeps both in step until it is cancelled."""
        loop = asyncio.get_running_loop()
        uses_due_s = loop.time() + USES_INTERVAL_S
        forgetting_due_s = loop.time()
        while True:
            await asyncio.sleep(interval_s)
            await self._refused.flush(self.store.audit.record)
            await self.poll()
            if loop.time() >= uses_due_s:
                uses_due_s += USES_INTERVAL_S
                await self._write_uses()
            if loop.time() >= forgetting_due_s:
                forgetting_due_s += FORGETTING_INTERVAL_S
                await self._forget_old()

    async def begin(self) -> Directory:
        """Knows who may call, and what they used today.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        await self._service.accounts.book.load(self.store.usage)
        return await self.refresh()

    async def stop(self) -> None:
        """Writes down what was seen last."""
        await self._refused.flush(self.store.audit.record)
        await self._write_uses()

    async def poll(self) -> None:
        """Refreshes; a store that fails changes nothing, and is logged."""
        try:
            await self.refresh()
        except StoreUnavailable:
            if self._store_answered:
                log.warning("the store does not answer: who may call stays as it was")
            self._store_answered = False
            self._failures += 1
            if self.store.has_had_keys():  # of a file that took the place of the one opened here
                self._guard.note_keys()
        except Exception:  # what a store may hold that this opserve does not know
            self._failures += 1
            log.exception("the store is not understood: who may call stays as it was")
        else:
            self._store_answered = True

    async def _write_uses(self) -> None:
        await self._service.accounts.book.save(self.store.usage)
        try:
            await self.store.keys.touch(self._guard.take_uses())
        except Exception:  # nothing depends on it
            log.exception("last uses of keys are not written down")

    async def _forget_old(self) -> None:
        now = self._clock()
        try:
            await self.store.audit.forget(before=now - self._retention_s, now=now)
        except Exception:  # they are forgotten later
            log.exception("old entries of the audit are not forgotten yet")
