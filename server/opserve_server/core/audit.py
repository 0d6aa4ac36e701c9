"""What is kept of calls that were refused, and of those of administration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A call that was refused, or one of administration; equal refusals may share an entry.

    Attributes:
        at: When, in seconds since 1970; of the first, where several share it.
        tenant: Whose; empty where nobody was recognised.
        principal: Its name within the tenant; empty likewise.
        face: "grpc", "rest", "local" or "cli".
        method: What was called.
        outcome: "OK", or the name of the code that it was refused with.
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
