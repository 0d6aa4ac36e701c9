"""Synchronisation of the guard and the accounts with the store."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from opserve_server.core.audit import RefusedCalls
from opserve_server.core.directory import Directory
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.service import Service
from opserve_server.guard import Guard

if TYPE_CHECKING:  # for services with a store alone; see store_synchronisation.py
    from opserve_server.store.store import Store

USES_INTERVAL_S = 30.0
"""Seconds between two writes of device time and last uses of keys, each with a read of today's
device time of all services; a service that is killed loses what it has not written. No setting: a
longer interval would lose more of a day's quota at a kill, and one small transaction in 30 s costs
nothing noticeable."""
FORGETTING_INTERVAL_S = 3600.0
"""Seconds between two deletions of old audit entries, whose age is counted in days."""
_DAY_S = 86_400.0

log = logging.getLogger(__name__)


class Identity:
    """Brings the contents of the store to the guard, and the records of the guard to the store.

    While the store does not answer, or its file is missing, known keys stay valid and nothing
    changes; the guard never falls back to calls without keys.

    Args:
        guard: Authenticates callers.
        service: Ends the sessions of deleted and disabled tenants, and counts usage.
        store: Lists tenants, keys and certificates.
        refused: Rejected callers for the audit.
        audit_retention_days: Days for which the audit is kept.
        clock: Seconds since 1970.

    Attributes:
        store: Lists tenants, keys and certificates.
    """

    def __init__(
        self,
        guard: Guard,
        service: Service,
        store: "Store",
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
        """Loads the current directory; called at once after a change.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        async with self._refreshing:  # an older read never replaces a newer one
            directory = await self.store.directory()
            self._service.renew_tenants(directory.tenants.values())
            self._guard.refresh(directory)
            return directory

    async def keep(self, *, interval_s: float) -> None:
        """Synchronises until it is cancelled."""
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
        """Loads the directory and today's usage.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        await self._service.accounts.book.load(self.store.usage)
        return await self.refresh()

    async def stop(self) -> None:
        """Writes the latest records."""
        await self._refused.flush(self.store.audit.record)
        await self._write_uses()

    async def poll(self) -> None:
        """Refreshes; a failing store changes nothing, and is logged."""
        try:
            await self.refresh()
        except StoreUnavailable:
            if self._store_answered:
                log.warning("the store does not answer: tenants and keys stay as they were")
            self._store_answered = False
            self._failures += 1
            if self.store.has_had_keys():  # another process may have replaced the opened file
                self._guard.note_keys()
        except Exception:  # the store may have contents of a newer version
            self._failures += 1
            log.exception("the store cannot be read: tenants and keys stay as they were")
        else:
            self._store_answered = True

    async def _write_uses(self) -> None:
        book = self._service.accounts.book
        await book.save(self.store.usage)
        try:
            await self.store.keys.touch(self._guard.take_uses())
            await book.load(self.store.usage)  # with what other services of a farm have used
        except Exception:  # the next write has newer values
            log.exception("last uses of keys were not stored, or today's usage was not read")

    async def _forget_old(self) -> None:
        now = self._clock()
        try:
            await self.store.audit.forget(before=now - self._retention_s, now=now)
        except Exception:  # the next attempt deletes them
            log.exception("old audit entries were not deleted")
