"""Device time by tenant, UTC day and profile: today's use, and rows not yet in the ledger."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Protocol

from opserve_server.core.ledger import Flush, LedgerRow

log = logging.getLogger(__name__)


class Ledger(Protocol):
    """Store of usage; opserve_server.store implements it."""

    async def add(self, flush: Flush) -> None:
        """Adds to the stored rows of the same tenant, day and profile: all rows or none, once."""
        ...

    async def of(
        self, tenant: str | None, *, first_day: date, last_day: date
    ) -> Sequence[LedgerRow]:
        """Stored usage of a tenant, or of all; both days are included."""
        ...


_EPOCH = date(1970, 1, 1)
_DAY_S = 86_400.0
_Key = tuple[str, date, str]


class UsageBook:
    """Device time of tenants: today's total, and rows that the ledger does not have yet.

    Args:
        now: The wall clock, seconds since 1970.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._unsaved: dict[_Key, tuple[int, float]] = {}
        self._writer = secrets.token_hex(8)
        self._flush = Flush(writer=self._writer, number=0, at=0.0, rows=())
        self._seconds: dict[str, float] = {}
        self._days: int = 0
        self._day = _EPOCH

    def add(self, tenant: str, profile: str, seconds: float) -> None:
        """Adds the device time of a call, seconds."""
        self._turn_page()
        self._seconds[tenant] = self._seconds.get(tenant, 0.0) + seconds
        key = (tenant, self._day, profile)
        calls, before = self._unsaved.get(key, (0, 0.0))
        self._unsaved[key] = (calls + 1, before + seconds)

    def seconds_today(self, tenant: str) -> float:
        """Device seconds of a tenant since 00:00 UTC."""
        self._turn_page()
        return self._seconds.get(tenant, 0.0)

    def seconds_to_midnight(self) -> float:
        """Seconds until the next 00:00 UTC."""
        return _DAY_S - self._now() % _DAY_S

    @property
    def unsaved(self) -> list[LedgerRow]:
        """Rows that the ledger does not have yet, as far as is known."""
        return [*self._flush.rows, *self._new_rows()]

    async def load(self, ledger: Ledger) -> None:
        """Loads today's usage of all services from the ledger; what it lacks of this one is added.

        So neither a restart nor another service of the farm refills a quota.
        """
        self._turn_page()
        today = self._day
        stored = await ledger.of(None, first_day=today, last_day=today)
        self._turn_page()
        if self._day == today:
            unsaved = [row for row in self.unsaved if row.day == today]
            self._seconds = {}
            for row in (*stored, *unsaved):
                self._seconds[row.tenant] = self._seconds.get(row.tenant, 0.0) + row.device_s

    async def save(self, ledger: Ledger) -> None:
        """Sends the rows to the ledger; after a failure they stay for the next time.

        A ledger that reported a failure may have stored them, so the same flush is sent again
        unchanged.
        """
        # A failed flush keeps its number and its rows, so that the ledger can recognise it; newer
        # rows wait for the next flush.
        for _ in range(2):  # the failed flush, then the rows since
            if not self._flush.rows:
                self._begin_flush()
            if not self._flush.rows:
                return
            try:
                await ledger.add(self._flush)
            except Exception:  # a failing store must not stop the service
                log.exception("usage of %d rows is not in the ledger yet", len(self._flush.rows))
                return
            self._flush = replace(self._flush, rows=())

    def _begin_flush(self) -> None:
        number, rows = self._flush.number + 1, self._new_rows()
        # They are in the flush now, which stays until the ledger confirms it.
        self._unsaved.clear()
        self._flush = Flush(writer=self._writer, number=number, at=self._now(), rows=rows)

    def _new_rows(self) -> list[LedgerRow]:
        return [
            LedgerRow(tenant=tenant, day=day, profile=profile, device_s=seconds, calls=calls)
            for (tenant, day, profile), (calls, seconds) in self._unsaved.items()
        ]

    def _turn_page(self) -> None:
        days = int(self._now() // _DAY_S)
        if days != self._days:
            self._days = days
            self._day = _EPOCH + timedelta(days=days)
            # The quota counts one UTC day.
            self._seconds.clear()
