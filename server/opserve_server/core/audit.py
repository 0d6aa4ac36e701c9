"""What is kept of calls that were refused, and of those of administration."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from opserve_server.core.observations import Call, CallEnded, Observation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A call that was refused, or one of administration; equal refusals may share an entry.

    Attributes:
        at: When, in seconds since 1970; of the first, where several share it.
        tenant: Whose; empty where nobody was recognised.
        principal: Its name within the tenant; empty likewise.
        face: The API of the call: "grpc", "rest", "local" or "cli"; "service" for own changes.
            The wire has this name for it.
        method: What was called.
        outcome: "OK", or the code of its refusal: "UNAUTHENTICATED", "401".
        reason: Why, in words; never a secret.
        request_id: The call's id.
        detail: What was changed, as "name=value" pairs; never a secret.
        count: Calls that share it.
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


Sink = Callable[[Sequence[AuditEntry]], Awaitable[None]]
"""Keeps entries for good; raises OSError where it cannot."""


class RefusedCalls:
    """Refused callers until the store has them. No call waits for it.

    Args:
        limit: Entries at most; equal ones share one until they are flushed.
        clock: Seconds since 1970.
    """

    def __init__(self, *, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._entries: dict[tuple[str, ...], AuditEntry] = {}
        self._dropped = 0

    def observe(self, observation: Observation) -> None:
        """Notes a call whose caller was refused."""
        if isinstance(observation, CallEnded) and observation.call.audited:
            self._add(self._entry_of(observation.call))

    def count_dropped(self) -> int:
        """Calls that were refused while there was no room for an entry."""
        return self._dropped

    async def flush(self, sink: Sink) -> None:
        """Gives what there is to the sink; what it does not take stays for the next time."""
        entries, self._entries = self._entries, {}
        if not entries:
            return
        try:
            await sink(list(entries.values()))
        except Exception:  # whatever a store is, the service goes on
            log.exception(
                "%d entries of the audit wait: the store does not take them", len(entries)
            )
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
