"""Principals as columns of a row."""

from typing import Any

from sqlalchemy import RowMapping

from opserve_server.core.principal import Principal, Scope


def columns_of(principal: Principal) -> dict[str, Any]:
    """The columns tenant, principal and scopes."""
    return {
        "tenant": principal.tenant,
        "principal": principal.name,
        "scopes": ",".join(sorted(principal.scopes)),
    }


def principal_of(row: RowMapping) -> Principal:
    """The principal of a row with these columns."""
    scopes: str = row["scopes"]
    return Principal(
        tenant=row["tenant"],
        name=row["principal"],
        scopes=frozenset(map(Scope, filter(None, scopes.split(",")))),
    )
