"""Administration: tenants, keys, certificates, trusted identities, usage and audit.

Each call is audited: a change and its entry are one transaction, and a read is recorded before it
is answered.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opserve_kernels.user_input import choices
from opserve_server.admin_answers import (
    Activity,
    AllTenants,
    AuditEntries,
    CertificateInfo,
    IdentityInfo,
    KeyInfo,
    NewKey,
    Nothing,
    OneCertificate,
    OneIdentity,
    OneKey,
    OneTenant,
    SomeCertificates,
    SomeIdentities,
    SomeKeys,
    SomeSessions,
    TenantActivity,
    TenantAtWork,
    UsageRow,
    UsageRows,
)
from opserve_server.admin_audit import entry_of, given_in
from opserve_server.admin_calls import (
    AddCertificate,
    AddIdentity,
    CreateKey,
    CreateTenant,
    DeleteTenant,
    DrainService,
    GetActivity,
    GetTenant,
    ListAudit,
    ListCertificates,
    ListIdentities,
    ListKeys,
    ListSessions,
    ListTenants,
    ListUsage,
    ReleaseSession,
    RemoveCertificate,
    RemoveIdentity,
    RevokeKey,
    UpdateTenant,
)
from opserve_server.admin_rules import (
    AUDIT_ENTRIES,
    AUDIT_ENTRIES_LIMIT,
    LIFETIME_MAXIMUM_S,
    PRIORITY_LIMITS,
    WEIGHTS,
    between,
    check_administered,
    check_filters,
    check_quota,
    days,
    identity_id,
    key_id,
    new_identity,
    new_tenant_name,
    principal_of,
    resources,
    session_id,
    subject,
)
from opserve_server.calls import caller
from opserve_server.core.audit import AuditEntry, AuditQuery
from opserve_server.core.directory import Directory, KeyRecord, TrustedIdentity
from opserve_server.core.errors import HandleNotFound, StoreUnavailable
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.principal import ITSELF, LOCAL, Principal
from opserve_server.core.service import Service
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.identity import Identity

if TYPE_CHECKING:  # for services with a store alone; see store_synchronisation.py
    from opserve_server.store.store import Store

_FILTERED = (ListKeys, ListCertificates, ListIdentities, ListUsage, ListAudit, ListSessions)
"""Requests with the name of a tenant as an optional filter."""
_Work = Callable[[Any], Awaitable[object]]


class Administration:
    """The calls of administration; the guard has already checked the caller's scope.

    Args:
        service: The service.
        identity: The store, and the object that applies changes; None without a store, in which
            case no caller has the scope admin.
        issuers: Issuers whose tokens may be trusted.
        drain: Begins the end of the service.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        service: Service,
        identity: Identity | None,
        *,
        issuers: Collection[str] = (),
        drain: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._known_identity = identity
        self._issuers = tuple(issuers)
        self._drain = drain
        self._clock = clock
        self._lock = asyncio.Lock()
        self._changes: Mapping[type, _Work] = {
            CreateTenant: self._create_tenant,
            UpdateTenant: self._update_tenant,
            DeleteTenant: self._delete_tenant,
            RevokeKey: self._revoke_key,
            AddCertificate: self._add_certificate,
            RemoveCertificate: self._remove_certificate,
            AddIdentity: self._add_identity,
            RemoveIdentity: self._remove_identity,
        }
        self._readings: Mapping[type, _Work] = {
            ListTenants: self._tenants,
            GetTenant: self._tenant,
            ListKeys: self._keys,
            ListCertificates: self._certificates,
            ListIdentities: self._identities,
            ListUsage: self._usage,
            ListAudit: self._audit,
            ListSessions: self._sessions,
            GetActivity: self._activity,
        }

    async def run(self, request: object) -> object:
        """Executes a call and returns its answer; ANSWERS maps requests to answers.

        Raises:
            InvalidArgument: 107000, a value is out of bounds.
            HandleNotFound: 107017, there is no such tenant, key or certificate.
            WrongState: 107000, a name is taken, two keys are active, or no caller could administer
                afterwards.
            StoreUnavailable: 507901, the store does not answer.
        """
        check_filters(getattr(request, "tenant", None), getattr(request, "outcome", None))
        if isinstance(request, CreateKey):
            return await self._create_key(request)
        if isinstance(request, ReleaseSession):
            return await self._release(request)
        if isinstance(request, DrainService):
            return await self._drain_service(request)
        kind = type(request)
        if kind in self._changes:
            async with self._changing():
                return await self._changes[kind](request)
        if isinstance(request, _FILTERED):
            await self._check_tenant(request.tenant or LOCAL.tenant)
        answer = await self._readings[kind](request)
        await self._store.audit.record([self._entry(request)])
        return answer

    @property
    def _identity(self) -> Identity:
        if self._known_identity is None:
            raise StoreUnavailable
        return self._known_identity

    @property
    def _store(self) -> "Store":
        return self._identity.store

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """Serialises changes; each is in force at the end of its block."""
        async with self._lock:
            yield
            await self._identity.refresh()

    async def _create_tenant(self, request: CreateTenant) -> OneTenant:
        quota = request.quota or Quota()
        between("weight", request.weight, *WEIGHTS)
        between("priority_limit", request.priority_limit, *PRIORITY_LIMITS)
        check_quota(quota)
        tenant = Tenant(
            name=new_tenant_name(request.tenant),
            quota=quota,
            weight=1 if request.weight is None else request.weight,
            priority_limit=request.priority_limit or 0,
        )
        await self._store.tenants.create(tenant, audit=self._entry(request))
        return OneTenant(tenant=tenant)

    async def _update_tenant(self, request: UpdateTenant) -> OneTenant:
        quota = request.quota or Quota()
        between("weight", request.weight, *WEIGHTS)
        between("priority_limit", request.priority_limit, *PRIORITY_LIMITS)
        check_quota(quota)
        limits = given_in(quota) | dict.fromkeys(resources(request.unlimited))
        names = ("weight", "priority_limit", "disabled")
        members = {name: value for name, value in given_in(request).items() if name in names}

        def changed(tenant: Tenant) -> Tenant:
            return replace(tenant, **members, quota=replace(tenant.quota, **limits))

        if not request.force:
            before = await self._store.directory()
            after = {
                name: changed(tenant) if name == request.tenant else tenant
                for name, tenant in before.tenants.items()
            }
            self._check(replace(before, tenants=after))
        audit = self._entry(request)
        return OneTenant(
            tenant=await self._store.tenants.update(request.tenant, change=changed, audit=audit)
        )

    async def _delete_tenant(self, request: DeleteTenant) -> Nothing:
        if not request.force:
            before = await self._store.directory()
            remaining = {
                name: one for name, one in before.tenants.items() if name != request.tenant
            }
            self._check(replace(before, tenants=remaining))
        await self._store.tenants.delete(request.tenant, audit=self._entry(request))
        return Nothing()

    async def _create_key(self, request: CreateKey) -> NewKey:
        between("lifetime_s", request.lifetime_s, 1.0, LIFETIME_MAXIMUM_S)
        text, now = new_key(), self._clock()
        digest = sha256_of(text)
        key = KeyRecord(
            id=digest.hex()[:8],
            sha256=digest,
            principal=principal_of(request.tenant, request.principal, request.scopes),
            created_at=now,
            expires_at=None if request.lifetime_s is None else now + request.lifetime_s,
        )
        async with self._lock:
            await self._store.keys.add(key, audit=self._entry(request, key=key.id))
            # A cancelled request would lose the text for ever, so the refresh of the guard follows
            # in its own time.
            with suppress(StoreUnavailable):
                await self._identity.refresh()
        return NewKey(key=_key_info(key), text=text)

    async def _revoke_key(self, request: RevokeKey) -> OneKey:
        revoked = key_id(request.key)
        if not request.force:
            before = await self._store.directory()
            remaining = {digest: key for digest, key in before.keys.items() if key.id != revoked}
            self._check(replace(before, keys=remaining))
        key = await self._store.keys.revoke(revoked, audit=self._entry(request))
        return OneKey(key=_key_info(key))

    async def _add_certificate(self, request: AddCertificate) -> OneCertificate:
        name = subject(request.subject)
        principal = principal_of(request.tenant, request.principal, request.scopes)
        await self._store.certificates.add(name, principal=principal, audit=self._entry(request))
        return OneCertificate(certificate=_certificate(name, principal))

    async def _remove_certificate(self, request: RemoveCertificate) -> Nothing:
        removed = subject(request.subject)
        if not request.force:
            before = await self._store.directory()
            remaining = {
                name: principal
                for name, principal in before.certificates.items()
                if name != removed
            }
            self._check(replace(before, certificates=remaining))
        await self._store.certificates.remove(removed, audit=self._entry(request))
        return Nothing()

    async def _add_identity(self, request: AddIdentity) -> OneIdentity:
        identity = new_identity(
            request.issuer,
            request.audience,
            request.claims,
            principal=principal_of(request.tenant, request.principal, request.scopes),
            issuers=self._issuers,
            now=self._clock(),
        )
        audit = self._entry(request, identity=identity.id)
        await self._store.identities.add(identity, audit=audit)
        return OneIdentity(identity=_identity_info(identity))

    async def _remove_identity(self, request: RemoveIdentity) -> Nothing:
        removed = identity_id(request.id)
        await self._store.identities.remove(removed, audit=self._entry(request))
        return Nothing()

    async def _check_tenant(self, name: str) -> None:
        """Rejects the name of a tenant that never was: the list would be empty."""
        tenants = (await self._store.directory()).tenants
        if name not in {*tenants, LOCAL.tenant} and name not in await self._store.tenants.deleted():
            raise HandleNotFound("tenant", name, allowed=choices(tuple(tenants), name))

    async def _tenants(self, _: ListTenants) -> AllTenants:
        return AllTenants(
            tenants=await self._store.tenants.all(), deleted=await self._store.tenants.deleted()
        )

    async def _tenant(self, request: GetTenant) -> TenantAtWork:
        tenant = await self._store.tenants.get(request.tenant)
        accounts = [one for one in self._service.accounts if one.tenant.name == tenant.name]
        return TenantAtWork(tenant=tenant, uses=[use for one in accounts for use in one.uses()])

    async def _keys(self, request: ListKeys) -> SomeKeys:
        known = (await self._store.directory()).keys.values()
        return SomeKeys(
            keys=[_key_info(key) for key in known if request.tenant in {"", key.principal.tenant}]
        )

    async def _certificates(self, request: ListCertificates) -> SomeCertificates:
        known = (await self._store.directory()).certificates.items()
        wanted = [
            (name, principal)
            for name, principal in known
            if request.tenant in {"", principal.tenant}
        ]
        return SomeCertificates(
            certificates=[_certificate(name, principal) for name, principal in wanted]
        )

    async def _identities(self, request: ListIdentities) -> SomeIdentities:
        known = (await self._store.directory()).identities
        wanted = [one for one in known if request.tenant in {"", one.principal.tenant}]
        return SomeIdentities(
            identities=[_identity_info(one) for one in wanted], issuers=self._issuers
        )

    async def _usage(self, request: ListUsage) -> UsageRows:
        first, last = days(request.first_day, request.last_day, now=self._clock())
        tenant = request.tenant or None
        saved = await self._store.usage.of(tenant, first_day=first, last_day=last)
        sums: dict[tuple[str, str, str], tuple[float, int]] = {}
        for row in (*saved, *self._service.accounts.book.unsaved):
            if tenant in {None, row.tenant} and first <= row.day <= last:
                place = (row.day.isoformat(), row.tenant, row.profile)
                seconds, calls = sums.get(place, (0.0, 0))
                sums[place] = (seconds + row.device_s, calls + row.calls)
        return UsageRows(
            rows=[
                UsageRow(
                    tenant=tenant_name, day=day, profile=profile, device_s=seconds, calls=calls
                )
                for (day, tenant_name, profile), (seconds, calls) in sorted(sums.items())
            ]
        )

    async def _audit(self, request: ListAudit) -> AuditEntries:
        between("limit", request.limit, 0, AUDIT_ENTRIES_LIMIT)
        query = AuditQuery(
            tenant=request.tenant, outcome=request.outcome, since=request.since, until=request.until
        )
        limit = request.limit or AUDIT_ENTRIES
        page = await self._store.audit.page(query, cursor=request.cursor, limit=limit)
        return AuditEntries(entries=page.entries, cursor=page.cursor)

    async def _sessions(self, request: ListSessions) -> SomeSessions:
        known = self._service.list_sessions(caller())
        return SomeSessions(sessions=[one for one in known if request.tenant in {"", one.tenant}])

    async def _release(self, request: ReleaseSession) -> Nothing:
        known = self._service.list_sessions(caller())
        if any(one.id == request.id and (request.force or not one.working) for one in known):
            await self._store.audit.record([self._entry(request)])
        # An action that cannot be recorded is rejected here.
        await self._service.release(caller(), session_id(request.id), force=request.force)
        return Nothing()

    async def _drain_service(self, request: DrainService) -> Nothing:
        # An action that cannot be recorded is rejected here.
        await self._store.audit.record([self._entry(request)])
        if not self._service.draining:  # a second SIGTERM ends work that still runs
            self._drain()
        return Nothing()

    async def _activity(self, _: GetActivity) -> Activity:
        return Activity(
            at=self._clock(),
            devices=self._service.list_devices(ITSELF),
            tenants=[
                TenantActivity(
                    tenant=account.tenant.name,
                    weight=account.tenant.weight,
                    calls=account.calls,
                    uses=account.uses(),
                )
                for account in self._service.accounts
            ],
        )

    def _check(self, after: Directory) -> None:
        check_administered(after, now=self._clock())

    def _entry(self, request: object, **more: str) -> AuditEntry:
        return entry_of(request, at=self._clock(), **more)


def _key_info(key: KeyRecord) -> KeyInfo:
    return KeyInfo(
        id=key.id,
        tenant=key.principal.tenant,
        principal=key.principal.name,
        scopes=sorted(key.principal.scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def _certificate(name: str, principal: Principal) -> CertificateInfo:
    return CertificateInfo(
        subject=name,
        tenant=principal.tenant,
        principal=principal.name,
        scopes=sorted(principal.scopes),
    )


def _identity_info(identity: TrustedIdentity) -> IdentityInfo:
    return IdentityInfo(
        id=identity.id,
        issuer=identity.issuer,
        audience=identity.audience,
        claims=identity.claims,
        tenant=identity.principal.tenant,
        principal=identity.principal.name,
        scopes=sorted(identity.principal.scopes),
        created_at=identity.created_at,
    )
