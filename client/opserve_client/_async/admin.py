"""Administration: tenants, keys, certificates, usage and audit, for whoever has the scope admin."""

from collections.abc import Mapping, Sequence

from opserve.v1 import admin_service_pb2 as admin
from opserve_client._async.connection import AsyncConnection
from opserve_client.request_forms import limits_and_lifted, named, request_of
from opserve_client.wire import admin_methods as methods


class AsyncAdmin:
    """What an administrator may do; see AsyncClient.admin.

    Every call is in the service's audit; a change is in force when its call returns. What would
    leave nobody who can administer is refused (507000) unless `force`.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create_tenant(
        self,
        name: str,
        *,
        weight: int | None = None,
        priority_limit: int | None = None,
        quota: Mapping[str, float] | None = None,
    ) -> admin.Tenant:
        """Adds a tenant.

        Args:
            name: 1 to 63 lower case letters, digits and hyphens.
            weight: Its share of a device beside others, 1 to 1000; None means 1.
            priority_limit: Greatest priority it may ask for; None means 0.
            quota: Limits by resource: {"sessions": 4, "device_seconds_per_day": 3600.0}.

        Raises:
            AclrtError: 507000, the name is, or was, another's; 107000, something is out of bounds.
        """
        request = request_of(
            admin.CreateTenantRequest,
            tenant=named(name, parameter="name"),
            weight=weight,
            priority_limit=priority_limit,
            quota=quota,
        )
        return (await self._connection.call(methods.CREATE_TENANT, request)).tenant

    async def list_tenants(self) -> list[admin.Tenant]:
        """All tenants, by name."""
        request = admin.ListTenantsRequest()
        return list((await self._connection.call(methods.LIST_TENANTS, request)).tenants)

    async def get_tenant(self, name: str) -> admin.GetTenantResponse:
        """A tenant, and what it uses now."""
        request = request_of(admin.GetTenantRequest, tenant=named(name, parameter="name"))
        return await self._connection.call(methods.GET_TENANT, request)

    async def update_tenant(  # each by name
        self,
        name: str,
        *,
        weight: int | None = None,
        priority_limit: int | None = None,
        disabled: bool | None = None,
        quota: Mapping[str, float | None] | None = None,
        force: bool = False,
    ) -> admin.Tenant:
        """Changes what is given, and leaves the rest.

        Args:
            name: Of the tenant.
            weight: Its share of a device beside others, 1 to 1000.
            priority_limit: Greatest priority it may ask for.
            disabled: Whether its keys are refused; its sessions are closed.
            quota: Limits by resource; None for a resource lifts its limit.
            force: Even if nobody can administer then.
        """
        limits, lifted = limits_and_lifted(quota)
        request = request_of(
            admin.UpdateTenantRequest,
            tenant=named(name, parameter="name"),
            weight=weight,
            priority_limit=priority_limit,
            disabled=disabled,
            quota=limits,
            unlimited=lifted,
            force=force,
        )
        return (await self._connection.call(methods.UPDATE_TENANT, request)).tenant

    async def delete_tenant(self, name: str, *, force: bool = False) -> None:
        """Ends a tenant, its keys and its sessions; nobody else gets its name."""
        request = request_of(
            admin.DeleteTenantRequest, tenant=named(name, parameter="name"), force=force
        )
        await self._connection.call(methods.DELETE_TENANT, request)

    async def create_key(
        self,
        tenant: str,
        principal: str,
        *,
        scopes: Sequence[str] = ("operate",),
        lifetime_s: float | None = None,
    ) -> admin.CreateKeyResponse:
        """Makes an API key, whose text is told this once.

        Args:
            tenant: Whose.
            principal: Who calls with it, within the tenant; has two live keys at most.
            scopes: "operate", "metrics", "admin".
            lifetime_s: Seconds until it expires; None means never.
        """
        request = request_of(
            admin.CreateKeyRequest,
            tenant=named(tenant, parameter="tenant"),
            principal=principal,
            scopes=scopes,
            lifetime_s=lifetime_s,
        )
        return await self._connection.call(methods.CREATE_KEY, request)

    async def list_keys(self, tenant: str = "") -> list[admin.Key]:
        """Keys of a tenant or of all, also revoked and expired ones, the oldest first."""
        request = request_of(admin.ListKeysRequest, tenant=tenant)
        return list((await self._connection.call(methods.LIST_KEYS, request)).keys)

    async def revoke_key(self, key: str, *, force: bool = False) -> admin.Key:
        """Ends a key for good, by its id; it is refused from the next call on."""
        request = request_of(admin.RevokeKeyRequest, key=named(key, parameter="key"), force=force)
        return (await self._connection.call(methods.REVOKE_KEY, request)).key

    async def add_certificate(
        self, subject: str, *, tenant: str, principal: str, scopes: Sequence[str] = ("operate",)
    ) -> admin.Certificate:
        """Says whose a client certificate is.

        Args:
            subject: "CN=ci,O=Farm", "URI:spiffe://farm/ci" or "DNS:ci.farm".
            tenant: Whose.
            principal: Who calls with it, within the tenant.
            scopes: "operate", "metrics", "admin".
        """
        request = request_of(
            admin.AddCertificateRequest,
            subject=subject,
            tenant=named(tenant, parameter="tenant"),
            principal=principal,
            scopes=scopes,
        )
        return (await self._connection.call(methods.ADD_CERTIFICATE, request)).certificate

    async def list_certificates(self, tenant: str = "") -> list[admin.Certificate]:
        """Certificates of a tenant or of all."""
        request = request_of(admin.ListCertificatesRequest, tenant=tenant)
        answer = await self._connection.call(methods.LIST_CERTIFICATES, request)
        return list(answer.certificates)

    async def remove_certificate(self, subject: str, *, force: bool = False) -> None:
        """Forgets a certificate."""
        request = request_of(admin.RemoveCertificateRequest, subject=subject, force=force)
        await self._connection.call(methods.REMOVE_CERTIFICATE, request)

    async def list_usage(
        self, tenant: str = "", *, first_day: str = "", last_day: str = ""
    ) -> list[admin.UsageRow]:
        """Device time by day, tenant and profile.

        Args:
            tenant: Whose; "" means everybody's.
            first_day: In UTC, "2026-11-21"; "" means six days before the last one.
            last_day: The same; "" means today.
        """
        request = request_of(
            admin.ListUsageRequest,
            tenant=tenant,
            first_day=first_day,
            last_day=last_day,
        )
        return list((await self._connection.call(methods.LIST_USAGE, request)).rows)

    async def list_audit(  # each by name
        self,
        *,
        tenant: str | None = None,
        outcome: str | None = None,
        since: float | None = None,
        until: float | None = None,
        cursor: str = "",
        limit: int = 0,
    ) -> admin.ListAuditResponse:
        """A page of calls of administration and of refused callers, the newest first.

        Args:
            tenant: Whose; "" means callers that nobody knows, None everybody.
            outcome: "OK", or what an API refused it with: "UNAUTHENTICATED", "401".
            since: Not earlier than this, seconds since 1970.
            until: Earlier than this.
            cursor: Of the page before this one; "" means the newest.
            limit: Entries at most, up to 1000; 0 means 100.
        """
        request = request_of(
            admin.ListAuditRequest,
            tenant=tenant,
            outcome=outcome,
            since=since,
            until=until,
            cursor=cursor,
            limit=limit,
        )
        return await self._connection.call(methods.LIST_AUDIT, request)

    async def list_sessions(self, tenant: str = "") -> list[admin.SessionInfo]:
        """Who has which session, those of a tenant or of all; an id is no session's name."""
        request = request_of(admin.ListSessionsRequest, tenant=tenant)
        return list((await self._connection.call(methods.LIST_SESSIONS, request)).sessions)

    async def release_session(self, session_id: str, *, force: bool = False) -> None:
        """Ends a session by its id; one that works (507000) only with force."""
        session_id = named(session_id, parameter="session_id")
        request = request_of(admin.ReleaseSessionRequest, id=session_id, force=force)
        await self._connection.call(methods.RELEASE_SESSION, request)

    async def get_activity(self) -> admin.GetActivityResponse:
        """What devices and tenants do now."""
        request = admin.GetActivityRequest()
        return await self._connection.call(methods.GET_ACTIVITY, request)
