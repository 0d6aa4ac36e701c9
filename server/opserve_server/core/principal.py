"""Who makes a call, and what it may do."""

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a principal may do; each method of an API asks for one."""

    OPERATE = "operate"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    Attributes:
        tenant: Owner of sessions; one tenant never sees another's.
        name: The caller within the tenant.
        scopes: What the caller may do.
    """

    tenant: str
    name: str
    scopes: frozenset[Scope]


LOCAL = Principal(
    tenant="local", name="anonymous", scopes=frozenset({Scope.OPERATE, Scope.METRICS})
)
"""The one principal of a service without keys, which listens on loopback only."""

ITSELF = Principal(tenant="", name="opserve", scopes=frozenset())
"""The service, when it looks at its own devices; no caller is ever this one."""
