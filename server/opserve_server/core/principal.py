"""Principals and their scopes."""

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """A permission of a principal; each method of an API requires one."""

    OPERATE = "operate"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    Attributes:
        tenant: Owner of sessions; a tenant cannot see another's.
        name: The caller within the tenant.
        scopes: Permissions of the caller.
    """

    tenant: str
    name: str
    scopes: frozenset[Scope]


LOCAL = Principal(
    tenant="local", name="anonymous", scopes=frozenset({Scope.OPERATE, Scope.METRICS})
)
"""The only principal of a service without keys, which listens on loopback only."""

ITSELF = Principal(tenant="", name="opserve", scopes=frozenset())
"""The service itself, for queries of its own devices; never a caller."""
