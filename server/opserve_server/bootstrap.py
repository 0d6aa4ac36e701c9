"""`opserve bootstrap`: creates the first key with the scope admin, directly in the store."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from opserve_kernels.status import ExitStatus
from opserve_server.admin_rules import is_administered, new_tenant_name
from opserve_server.core.audit import AuditEntry
from opserve_server.core.directory import Directory, KeyRecord
from opserve_server.core.errors import OpserveError
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.settings import SettingRefused, Settings, settings_of_environment, where_set
from opserve_server.store.location import File, location_of
from opserve_server.store.store import Store, open_store

PRINCIPAL = "bootstrap"
TENANT = "admin"


class Administered(Exception):
    """A caller can administer the service already."""


def main(arguments: Sequence[str]) -> int:
    """Prints the key, and only the key, on standard output; returns the exit status."""
    parser = argparse.ArgumentParser(prog="opserve bootstrap", description=__doc__)
    parser.add_argument("--tenant", default=TENANT)
    parser.add_argument("--force", action="store_true")
    given = parser.parse_args(arguments)
    try:
        settings = settings_of_environment()
        text = asyncio.run(_bootstrap(settings, given.tenant, force=given.force))
    except SettingRefused as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return ExitStatus.UNUSABLE
    except (Administered, OpserveError) as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return ExitStatus.FAILED
    place = location_of(settings.store_url.get_secret_value())
    sys.stderr.write(
        f"The store {place} has this key, which is shown only once; set OPSERVE_API_KEY to it.\n"
    )
    sys.stdout.write(f"{text}\n")
    return ExitStatus.DONE


async def _bootstrap(settings: Settings, tenant: str, *, force: bool) -> str:
    url = settings.store_url.get_secret_value()
    if not url:
        raise SettingRefused(f"store_url is missing: set it by {where_set('store_url')}.")
    where = location_of(url)
    if isinstance(where, File) and where.has_had_keys() and not where.is_there() and not force:
        raise SettingRefused(
            f"store_url {where} had keys and is missing: restore it, or give --force for an empty "
            "one, without the tenants, keys, usage and audit that it had"
        )
    opened = open_store(
        url,
        timeout_s=settings.store_timeout_s,
        connections_limit=settings.store_connections_limit,
    )
    async with opened as store:
        return await first_key(store, tenant, force=force, now=time.time())


async def first_key(store: Store, tenant: str, *, force: bool, now: float) -> str:
    """Creates a key with every scope, and its tenant if it does not exist.

    Keys that it created before are revoked, those of other tenants, too.

    Args:
        store: The store.
        tenant: Tenant of the key.
        force: Whether to create it even if a caller can administer.
        now: Seconds since 1970.

    Raises:
        Administered: A caller can administer, and force was not given.
        InvalidArgument: 107000, the tenant's name is invalid.
        WrongState: 107000, the tenant was deleted.
        StoreUnavailable: 507901, the store does not answer.
    """
    directory = await store.directory()
    if is_administered(directory, now=now) and not force:
        raise Administered(
            "a key with the scope admin is active: use it, or give --force, which revokes the "
            "keys of earlier bootstraps"
        )
    entry = partial(_entry, at=now)
    principal = Principal(tenant=new_tenant_name(tenant), name=PRINCIPAL, scopes=frozenset(Scope))
    if tenant not in directory.tenants:
        audit = entry("CreateTenant", f"tenant={tenant}")
        await store.tenants.create(Tenant(name=tenant), audit=audit)
    else:
        audit = entry("UpdateTenant", f"tenant={tenant} disabled=False unlimited=calls_per_s")
        await store.tenants.update(tenant, change=_key_policy_detail, audit=audit)
    for key_id in _live_keys(directory):
        await store.keys.revoke(key_id, audit=entry("RevokeKey", f"key={key_id}"))
    store.note_keys()
    text = new_key()
    digest = sha256_of(text)
    key = KeyRecord(id=digest.hex()[:8], sha256=digest, principal=principal, created_at=now)
    detail = f"key={key.id} tenant={tenant} principal={PRINCIPAL} scopes={','.join(Scope)}"
    await store.keys.add(key, audit=entry("CreateKey", detail))
    return text


def _key_policy_detail(tenant: Tenant) -> Tenant:
    """The same tenant, enabled and without a limit of calls."""
    return replace(tenant, disabled=False, quota=replace(tenant.quota, calls_per_s=None))


def _live_keys(directory: Directory) -> list[str]:
    """Keys of earlier bootstraps that are not revoked, by their ids."""
    return [
        key.id
        for key in directory.keys.values()
        if key.revoked_at is None
        and key.principal.name == PRINCIPAL
        and Scope.ADMIN in key.principal.scopes
    ]


def _entry(method: str, detail: str, *, at: float) -> AuditEntry:
    return AuditEntry(
        at=at, tenant="", principal="", face="cli", method=method, outcome="OK", detail=detail
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
