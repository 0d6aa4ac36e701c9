"""Checks of a document against a service, before the first change.

The service rejects the same values; the checks save an administrator from a half applied file.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

from opserve.v1.admin_service_pb2 import Tenant
from opserve_client.apply.changes import State, condition_of, has_key
from opserve_client.apply.document import Document, TenantPart
from opserve_client.apply.source import Source, place
from opserve_client.files import FileError
from opserve_kernels.errors import rejection
from opserve_kernels.user_input import choices

ADMIN = "admin"
LIVE_KEYS_LIMIT = 2
"""Valid keys of one principal."""
_NO_ADMIN = "no caller with the scope admin: give it to another one first."
_Problem = tuple[tuple[Hashable, ...], str]
"""Location of a value, and the sentence about it."""


def check(document: Document, state: State, source: Source, *, prune: bool) -> None:
    """Rejects a document that the service would reject in part.

    Raises:
        FileError: Each line of the message is a sentence with the value's line and path.
    """
    problems = [
        *_repeated_identities(document),
        *(one for name, part in document.tenants.items() for one in _of_tenant(name, part, state)),
        *_last_administrator(document, state, prune=prune),
    ]
    if problems:
        raise FileError("\n".join(source.problem(*problem) for problem in problems))


def _of_tenant(name: str, part: TenantPart, state: State) -> Iterator[_Problem]:
    at: tuple[Hashable, ...] = ("tenants", name)
    if name in state.deleted:
        yield at, f"{place(at)} has the name of a deleted tenant: choose a name that is new."
    for principal, key in part.keys.items():
        valid = state.keys.get((name, principal), ())
        if len(valid) >= LIVE_KEYS_LIMIT and not has_key(state, name, principal, key):
            where = (*at, "keys", principal)
            others = " and ".join(f"{one.id} ({' '.join(one.scopes)})" for one in valid)
            sentence = (
                f"{place(where)} needs a third key beside {others}: choose its scopes, or revoke "
                f"one with `opserve key revoke {valid[0].id}`."
            )
            yield where, sentence
    for position, identity in enumerate(part.identities):
        where = (*at, "identities", position, "issuer")
        if identity.issuer not in state.issuers:
            issuers = choices(state.issuers, identity.issuer) or "none"
            allowed = f"those of the service's OPSERVE_IDENTITY_ISSUERS: {issuers}"
            yield where, rejection(place(where), given=identity.issuer, allowed=allowed)


def _repeated_identities(document: Document) -> Iterator[_Problem]:
    first: dict[object, str] = {}
    for name, part in document.tenants.items():
        for position, identity in enumerate(part.identities):
            where = ("tenants", name, "identities", position)
            other = first.setdefault(condition_of(identity), place(where))
            if other != place(where):
                sentence = f"{place(where)} has the issuer, audience and claims of {other}"
                yield where, f"{sentence}: keep one of them."


def _last_administrator(document: Document, state: State, *, prune: bool) -> Iterator[_Problem]:
    """Yields the first change after which no caller can administer the service."""
    tenants = dict(state.tenants)
    administrators = {one.tenant for one in state.certificates if ADMIN in one.scopes}
    for (tenant, _), keys in state.keys.items():
        administrators |= {tenant for key in keys if ADMIN in key.scopes}
    if not _administered(administrators, tenants):
        return  # its administrators have tokens, which the service does not count
    for name, part in document.tenants.items():
        tenants[name] = _after(tenants.get(name, Tenant()), part)
        if not _administered(administrators, tenants):
            where = ("tenants", name, *(("disabled",) if part.disabled else ("quota",)))
            yield where, f"{place(where)} leaves {_NO_ADMIN}"
            return
    if prune and not _administered(_after_pruning(document, state), tenants):
        yield (), f"--prune leaves {_NO_ADMIN}"


def _administered(administrators: Iterable[str], tenants: Mapping[str, Tenant]) -> bool:
    """Returns whether the tenant of an administrator can call."""
    return any(_can_call(tenants[name]) for name in administrators if name in tenants)


def _can_call(tenant: Tenant) -> bool:
    has_no_calls = tenant.quota.HasField("calls_per_s") and not tenant.quota.calls_per_s
    return not (tenant.disabled or has_no_calls)


def _after(tenant: Tenant, part: TenantPart) -> Tenant:
    """Returns a tenant with the members of a document that decide whether it can call."""
    changed = Tenant(disabled=tenant.disabled if part.disabled is None else part.disabled)
    limit = tenant.quota.calls_per_s if tenant.quota.HasField("calls_per_s") else None
    limit = part.quota.limits.get("calls_per_s", limit)
    if limit is not None:
        changed.quota.calls_per_s = limit
    return changed


def _after_pruning(document: Document, state: State) -> set[str]:
    """Returns the tenants of the administrators that are left, or new."""
    kept = document.tenants.keys() | {state.caller}
    tenants = {one.tenant for one in state.certificates if ADMIN in one.scopes} & kept
    own = (keys for (tenant, _), keys in state.keys.items() if tenant == state.caller)
    tenants |= {state.caller for keys in own for key in keys if ADMIN in key.scopes}
    for name, part in document.tenants.items():
        tenants |= {name for key in part.keys.values() if ADMIN in key.scopes}
    return tenants
