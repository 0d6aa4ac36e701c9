"""Who makes a call."""

from dataclasses import dataclass


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
    scopes: frozenset[str]


LOCAL = Principal(tenant="local", name="anonymous", scopes=frozenset({"operate"}))
"""The one principal of a service without keys, which listens on loopback only."""
