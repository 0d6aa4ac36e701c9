"""The changes that bring the tenants of a service to a document, in the order of their making."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from opserve.v1.admin_service_pb2 import Certificate, Key, Tenant, TrustedIdentity
from opserve_client._sync.admin import Admin
from opserve_client._sync.client import Client
from opserve_client.apply.document import (
    UNLIMITED,
    Document,
    IdentityPart,
    KeyPart,
    TenantPart,
)
from opserve_client.files import FileError

_DAY_S = 86400.0
_MEMBERS = ("weight", "priority_limit", "disabled")
"""Properties of a tenant besides its limits."""
_PRIVATE = 0o600
"""Mode of files with keys: only their owner reads them."""
Sign = Literal["+", "~", "-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A created key.

    Attributes:
        caller: Tenant and principal, "vision/laptop".
        text: The key, a secret; "" if a file has it.
        file: File with the key; None if it has none.
    """

    caller: str
    text: str = ""
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the service.

    Attributes:
        sign: "+" creates, "~" changes, "-" removes.
        subject: The object, such as "tenant vision".
        details: New values, or old and new ones.
        make: Makes the change; returns the key that it created, or None.
    """

    sign: Sign
    subject: str
    details: str = ""
    make: Callable[[], NewKey | None]

    @property
    def line(self) -> str:
        """The change in the diff."""
        return f"{self.sign} {self.subject}{self.details and ': '}{self.details}"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The part of a service that a document describes.

    Attributes:
        tenants: Tenants by name.
        keys: Valid keys by tenant and principal.
        identities: Trusted identities.
        certificates: Client certificates, which may administer, too.
        deleted: Names of deleted tenants, which no tenant can have again.
        issuers: Issuers that an identity may name.
        caller: Tenant of the caller, which is never pruned; "" without pruning.
    """

    tenants: Mapping[str, Tenant]
    keys: Mapping[tuple[str, str], Sequence[Key]]
    identities: Sequence[TrustedIdentity]
    certificates: Sequence[Certificate]
    deleted: Sequence[str]
    issuers: Sequence[str]
    caller: str


def read_state(client: Client, *, now: float, prune: bool) -> State:
    """Reads the state of a service.

    Args:
        client: Client of an administrator.
        now: Seconds since 1970, after which a valid key expires.
        prune: Whether to read the caller's tenant, which needs the scope operate.
    """
    keys: dict[tuple[str, str], list[Key]] = {}
    for key in client.admin.list_keys():
        is_expired = key.HasField("expires_at") and key.expires_at <= now
        if not (is_expired or key.HasField("revoked_at")):
            keys.setdefault((key.tenant, key.principal), []).append(key)
    return State(
        tenants={tenant.name: tenant for tenant in client.admin.list_tenants()},
        keys=keys,
        identities=client.admin.list_identities(),
        certificates=client.admin.list_certificates(),
        deleted=client.admin.list_deleted_tenants(),
        issuers=client.admin.list_issuers(),
        caller=client.get_usage().tenant if prune else "",
    )


def changes_to(
    document: Document, state: State, admin: Admin, *, folder: Path, prune: bool
) -> list[Change]:
    """Returns the changes: new and changed objects first, removed ones last.

    Args:
        document: The document.
        state: State of the service.
        admin: Calls that make the changes.
        folder: Folder of the document, for files of keys.
        prune: Whether to remove what the document does not have.

    Raises:
        FileError: A file for a new key exists already, or is named twice.
    """
    made: list[Change] = []
    for name, part in document.tenants.items():
        limits = _limits_of(state.tenants.get(name), part, prune=prune and name != state.caller)
        made += _of_tenant(name, part, limits, state.tenants.get(name), admin)
    files: set[Path] = set()
    for name, part in document.tenants.items():
        for principal, key in part.keys.items():
            if not has_key(state, name, principal, key):
                path = None if key.file is None else _new_file(folder / key.file, files)
                made.append(_new_key(name, principal, key, path, admin))
        made += _of_identities(name, part.identities, state, admin)
    return [*made, *_pruned(document, state, admin)] if prune else made


def _limits_of(now: Tenant | None, part: TenantPart, *, prune: bool) -> dict[str, float | None]:
    """Returns the limits to set; with prune, other limits of the tenant are removed."""
    others = now.quota.ListFields() if prune and now is not None else ()
    return {field.name: None for field, _ in others} | part.quota.limits


def _of_tenant(
    name: str,
    part: TenantPart,
    limits: Mapping[str, float | None],
    now: Tenant | None,
    admin: Admin,
) -> Iterator[Change]:
    members = {member: getattr(part, member) for member in _MEMBERS}
    after: dict[str, float | None] = {k: v for k, v in members.items() if v is not None}
    after.update(limits)
    if now is None:
        details = (f"{k} {_shown(v)}" for k, v in after.items() if v is not None)
        make = partial(_create_tenant, admin, name, part)
        yield Change(sign="+", subject=f"tenant {name}", details=", ".join(details), make=make)
        return
    before = {member: _value(now, member) for member in after}
    changed = {member: value for member, value in after.items() if value != before[member]}
    if changed:
        details = (f"{k} {_shown(before[k])} -> {_shown(v)}" for k, v in changed.items())
        make = partial(_update_tenant, admin, name, changed)
        yield Change(sign="~", subject=f"tenant {name}", details=", ".join(details), make=make)


def _create_tenant(admin: Admin, name: str, part: TenantPart) -> None:
    limits = {resource: limit for resource, limit in part.quota.limits.items() if limit is not None}
    admin.create_tenant(name, weight=part.weight, priority_limit=part.priority_limit, quota=limits)
    if part.disabled:
        admin.update_tenant(name, disabled=True)


def _update_tenant(admin: Admin, name: str, changed: Mapping[str, Any]) -> None:
    limits = {member: value for member, value in changed.items() if member not in _MEMBERS}
    admin.update_tenant(
        name,
        weight=changed.get("weight"),
        priority_limit=changed.get("priority_limit"),
        disabled=changed.get("disabled"),
        quota=limits,
    )


def _value(tenant: Tenant, member: str) -> float | None:
    """Returns a property of a tenant, or a limit; None means no limit."""
    if member in _MEMBERS:
        value: float = getattr(tenant, member)
        return value
    limit: float = getattr(tenant.quota, member)
    return limit if tenant.quota.HasField(member) else None  # type: ignore[arg-type]  # its field


def has_key(state: State, tenant: str, principal: str, wanted: KeyPart) -> bool:
    """Returns whether a principal has a valid key with the wanted scopes."""
    found = state.keys.get((tenant, principal), ())
    return any(set(key.scopes) == set(wanted.scopes) for key in found)


def _new_file(path: Path, others: set[Path]) -> Path:
    """Checks before the first change that a key can be written to a new file."""
    if path in others or os.path.lexists(path):
        reason = "is the file of another key" if path in others else "exists already"
        raise FileError(f"{path} {reason}: choose another file for the new key, or move it away.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileError(f"{path}: No file can be created in its folder: choose another file.")
    others.add(path)
    return path


def _new_key(tenant: str, principal: str, key: KeyPart, path: Path | None, admin: Admin) -> Change:
    lifetime = "never expires" if key.days is None else f"expires after {key.days:g} days"
    place = "shown once" if path is None else f"in {path}"
    return Change(
        sign="+",
        subject=f"key {tenant}/{principal}",
        details=f"{' '.join(key.scopes)}, {lifetime}, {place}",
        make=partial(_create_key, admin, tenant, principal, key, path),
    )


def _create_key(
    admin: Admin, tenant: str, principal: str, key: KeyPart, path: Path | None
) -> NewKey:
    """Creates a key; its file is created before it, so that the only copy of it is not lost."""
    caller = f"{tenant}/{principal}"
    lifetime_s = None if key.days is None else key.days * _DAY_S
    create = partial(admin.create_key, tenant, principal, scopes=key.scopes, lifetime_s=lifetime_s)
    if path is None:
        return NewKey(caller=caller, text=create().text)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    try:
        text = create().text
    except BaseException:
        os.close(opened)
        path.unlink()
        raise
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return NewKey(caller=caller, file=path)


def _of_identities(
    tenant: str, parts: Sequence[IdentityPart], state: State, admin: Admin
) -> Iterator[Change]:
    now = {_condition(one): one for one in state.identities}
    for part in parts:
        condition = condition_of(part)
        found = now.get(condition)
        wanted = f"{tenant}/{part.principal} ({' '.join(sorted(part.scopes))})"
        if found is not None and _holder(found) == wanted:
            continue
        subject = f"identity {part.issuer} {part.audience} {' '.join(condition[2])}"
        details = f"for {wanted}" if found is None else f"for {_holder(found)} -> {wanted}"
        make = partial(_trust, admin, tenant, part, None if found is None else found.id)
        yield Change(sign="~" if found else "+", subject=subject, details=details, make=make)


def _condition(identity: TrustedIdentity) -> tuple[str, str, tuple[str, ...]]:
    return identity.issuer, identity.audience, tuple(sorted(identity.claims))


def condition_of(part: IdentityPart) -> tuple[str, str, tuple[str, ...]]:
    """Returns what the service compares with a token: issuer, audience and claims."""
    claims = sorted(f"{name}={value}" for name, value in part.claims.items())
    return part.issuer, part.audience, tuple(claims)


def _holder(identity: TrustedIdentity) -> str:
    return f"{identity.tenant}/{identity.principal} ({' '.join(sorted(identity.scopes))})"


def _trust(admin: Admin, tenant: str, part: IdentityPart, replaced: str | None) -> None:
    if replaced is not None:
        admin.remove_identity(replaced)
    admin.add_identity(
        part.issuer,
        audience=part.audience,
        claims=part.claims,
        tenant=tenant,
        principal=part.principal,
        scopes=part.scopes,
    )


def _pruned(document: Document, state: State, admin: Admin) -> Iterator[Change]:
    """Yields the removals; the caller's own tenant keeps what it has."""
    parts = {name: one for name, one in document.tenants.items() if name != state.caller}
    trusted = {condition_of(one) for part in parts.values() for one in part.identities}
    for one in state.identities:
        if one.tenant in parts and _condition(one) not in trusted:
            subject = f"identity {one.issuer} {one.audience} {' '.join(one.claims)}"
            make = partial(admin.remove_identity, one.id)
            yield Change(sign="-", subject=subject, details=f"for {_holder(one)}", make=make)
    for (tenant, principal), keys in state.keys.items():
        wanted = parts[tenant].keys.get(principal) if tenant in parts else None
        for key in keys if tenant in parts else ():
            if wanted is None or set(key.scopes) != set(wanted.scopes):
                subject = f"key {tenant}/{principal}"
                make = partial(_revoke, admin, key.id)
                yield Change(sign="-", subject=subject, details=f"id {key.id}", make=make)
    for name in sorted(state.tenants.keys() - document.tenants.keys() - {state.caller}):
        make = partial(admin.delete_tenant, name)
        details = "its name is never used again"
        yield Change(sign="-", subject=f"tenant {name}", details=details, make=make)


def _revoke(admin: Admin, key_id: str) -> None:
    admin.revoke_key(key_id)


def _shown(value: float | None) -> str:
    match value:
        case None:
            return UNLIMITED
        case bool():
            return str(value).lower()
        case _:
            return f"{value:.15g}"
