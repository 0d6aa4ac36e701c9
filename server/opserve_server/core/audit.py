"""Audit entries of rejected calls and of administration."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from opserve_server.core.observations import Call, CallEnded, Observation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A rejected call or a call of administration; equal rejections may share an entry.

    Attributes:
        at: Time, seconds since 1970; of the first call where several share the entry.
        tenant: The caller's tenant; empty where the caller was not authenticated.
        principal: The caller's name within the tenant; empty where the caller was not
            authenticated.
        face: The API of the call: "grpc", "rest", "connect", "local" or "cli"; "service" for
            changes by the service itself. The wire has this name for it.
        method: The called method.
        outcome: "OK", or the code of the rejection: "UNAUTHENTICATED", "401".
        reason: Reason in words; never a secret.
        request_id: The call's id.
        detail: Changes as "name=value" pairs; never a secret.
        count: Calls that share the entry.
    """

    at: float
    tenant: str
    principal: str
    face: str
    method: str
    outcome: str
    reason: str = ""
    request_id: str = ""
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Conditions on entries; None: any.

    Attributes:
        tenant: Tenant.
        outcome: "OK", or the name of a code.
        since: Not earlier than this, seconds since 1970.
        until: Earlier than this, seconds since 1970.
    """

    tenant: str | None = None
    outcome: str | None = None
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """One page of entries, the newest first.

    Attributes:
        entries: The entries.
        cursor: Cursor of the next page; empty: there is none.
    """

    entries: Sequence[AuditEntry]
    cursor: str


Sink = Callable[[Sequence[AuditEntry]], Awaitable[None]]
"""Stores entries; raises OSError on failure."""


class RefusedCalls:
    """Rejected callers until the store has them; no call waits for the store.

    Args:
        limit: Entries at most; equal ones share an entry until they are flushed.
        clock: Seconds since 1970.
    """

    def __init__(self, *, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._entries: dict[tuple[str, ...], AuditEntry] = {}
        self._dropped = 0

    def observe(self, observation: Observation) -> None:
        """Records a call whose caller was rejected."""
        if isinstance(observation, CallEnded) and observation.call.audited:
            self._add(self._entry_of(observation.call))

    def count_dropped(self) -> int:
        """Rejected calls that were dropped because the table was full."""
        return self._dropped

    async def flush(self, sink: Sink) -> None:
        """Sends the entries to the sink; entries that it does not store stay for the next flush."""
        entries, self._entries = self._entries, {}
        if not entries:
            return
        try:
            await sink(list(entries.values()))
        except Exception:  # a failing store must not stop the service
            log.exception(
                "%d entries of the audit wait: the store does not take them", len(entries)
            )
            # Merged with the entries since, within the limit.
            for entry in entries.values():
                self._add(entry)

    def _entry_of(self, call: Call) -> AuditEntry:
        principal = call.principal
        return AuditEntry(
            at=self._clock(),
            tenant="" if principal is None else principal.tenant,
            principal="" if principal is None else principal.name,
            face=call.api,
            method=call.method,
            outcome=call.outcome,
            reason=call.audited,
            request_id=call.request_id,
        )

    def _add(self, entry: AuditEntry) -> None:
        # Equal rejections share an entry: a flood of bad keys must not fill the table or the store.
        key = (
            entry.tenant,
            entry.principal,
            entry.face,
            entry.method,
            entry.outcome,
            entry.reason,
        )
        found = self._entries.get(key)
        if found is not None:
            self._entries[key] = replace(
                found, at=min(found.at, entry.at), count=found.count + entry.count
            )
        elif len(self._entries) < self._limit:
            self._entries[key] = entry
        else:
            self._dropped += entry.count
