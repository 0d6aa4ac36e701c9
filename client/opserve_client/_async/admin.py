"""Administration of tenants, keys, certificates, usage and audit; needs the scope "admin"."""

from collections.abc import Mapping, Sequence

from opserve.v1 import admin_service_pb2 as admin
from opserve_client._async.connection import AsyncConnection
from opserve_client.request_forms import limits_and_lifted, named, request_of
from opserve_client.wire import admin_methods as methods


class AsyncAdmin:
    """The calls of an administrator; see AsyncClient.admin.

    The service audits every call. A change is in force when its call returns. A change after which
    no caller could administer the service is rejected (107000), except with `force`.
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
            weight: Share of a device relative to other tenants, 1 to 1000; None means 1.
            priority_limit: Greatest priority of its session requests; None means 0.
            quota: Limits by resource: {"sessions": 4, "device_seconds_per_day": 3600.0}.

        Raises:
            AclrtError: 107000, another tenant has or had the name, or a value is out of bounds.
        """
        limits, _ = limits_and_lifted(quota)
        request = request_of(
            admin.CreateTenantRequest,
            tenant=named(name, parameter="name"),
            weight=weight,
            priority_limit=priority_limit,
            quota=limits,
        )
        return (await self._connection.call(methods.CREATE_TENANT, request)).tenant

    async def list_tenants(self) -> list[admin.Tenant]:
        """Returns all tenants, sorted by name."""
        request = admin.ListTenantsRequest()
        return list((await self._connection.call(methods.LIST_TENANTS, request)).tenants)

    async def list_deleted_tenants(self) -> list[str]:
        """Returns the names of deleted tenants, which no tenant can have again."""
        request = admin.ListTenantsRequest()
        return list((await self._connection.call(methods.LIST_TENANTS, request)).deleted)

    async def get_tenant(self, name: str) -> admin.GetTenantResponse:
        """Returns a tenant and its current use of each resource."""
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
        """Changes the given properties of a tenant; None keeps a property.

        Args:
            name: Name of the tenant.
            weight: Share of a device relative to other tenants, 1 to 1000.
            priority_limit: Greatest priority of its session requests.
            disabled: Whether to reject its keys; True also closes its sessions.
            quota: Limits by resource; None for a resource removes its limit.
            force: Whether to allow a change after which no caller can administer the service.
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
        """Deletes a tenant, its keys and its sessions; its name is never used again."""
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
        """Creates an API key; only this answer contains its text.

        Args:
            tenant: Tenant of the key.
            principal: Name of the caller within the tenant; has at most two valid keys.
            scopes: "operate", "metrics", "admin".
            lifetime_s: Seconds until the key expires; None means never.
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
        """Returns the keys of a tenant or of all, with revoked and expired ones, oldest first."""
        request = request_of(admin.ListKeysRequest, tenant=tenant)
        return list((await self._connection.call(methods.LIST_KEYS, request)).keys)

    async def revoke_key(self, key: str, *, force: bool = False) -> admin.Key:
        """Revokes a key by its id: the service rejects it from the next call on."""
        request = request_of(admin.RevokeKeyRequest, key=named(key, parameter="key"), force=force)
        return (await self._connection.call(methods.REVOKE_KEY, request)).key

    async def add_certificate(
        self, subject: str, *, tenant: str, principal: str, scopes: Sequence[str] = ("operate",)
    ) -> admin.Certificate:
        """Assigns a client certificate to a tenant.

        Args:
            subject: "CN=ci,O=Farm", "URI:spiffe://farm/ci" or "DNS:ci.farm".
            tenant: Tenant of the certificate.
            principal: Name of the caller within the tenant.
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
        """Returns the certificates of a tenant or of all."""
        request = request_of(admin.ListCertificatesRequest, tenant=tenant)
        answer = await self._connection.call(methods.LIST_CERTIFICATES, request)
        return list(answer.certificates)

    async def remove_certificate(self, subject: str, *, force: bool = False) -> None:
        """Removes a certificate: the service rejects it from the next call on."""
        request = request_of(admin.RemoveCertificateRequest, subject=subject, force=force)
        await self._connection.call(methods.REMOVE_CERTIFICATE, request)

    async def add_identity(  # each by name
        self,
        issuer: str,
        *,
        audience: str,
        claims: Mapping[str, str],
        tenant: str,
        principal: str,
        scopes: Sequence[str] = ("operate",),
    ) -> admin.TrustedIdentity:
        """Trusts tokens of an issuer, such as those of a CI system, for a principal.

        Args:
            issuer: Claim iss of the tokens: "https://token.actions.githubusercontent.com".
            audience: Claim aud of the tokens, or one of its values.
            claims: Claims that a token must have: {"repository": "farm/kernels"}.
            tenant: Tenant of the principal.
            principal: Name of the caller within the tenant.
            scopes: "operate", "metrics", "admin".

        Raises:
            AclrtError: 107000, the settings of the service do not list the issuer, or no claim
                names a repository, project, owner or subject, or an identity has the same
                issuer, audience and claims.
        """
        request = request_of(
            admin.AddIdentityRequest,
            issuer=issuer,
            audience=audience,
            claims=[f"{name}={value}" for name, value in claims.items()],
            tenant=named(tenant, parameter="tenant"),
            principal=principal,
            scopes=scopes,
        )
        return (await self._connection.call(methods.ADD_IDENTITY, request)).identity

    async def list_identities(self, tenant: str = "") -> list[admin.TrustedIdentity]:
        """Trusted identities of a tenant or of all, the oldest first."""
        request = request_of(admin.ListIdentitiesRequest, tenant=tenant)
        return list((await self._connection.call(methods.LIST_IDENTITIES, request)).identities)

    async def list_issuers(self) -> list[str]:
        """Returns the issuers that an identity may name."""
        request = admin.ListIdentitiesRequest()
        return list((await self._connection.call(methods.LIST_IDENTITIES, request)).issuers)

    async def remove_identity(self, identity: str) -> None:
        """Removes a trusted identity by its id; the next call with its tokens is rejected."""
        request = request_of(admin.RemoveIdentityRequest, id=named(identity, parameter="identity"))
        await self._connection.call(methods.REMOVE_IDENTITY, request)

    async def list_usage(
        self, tenant: str = "", *, first_day: str = "", last_day: str = ""
    ) -> list[admin.UsageRow]:
        """Returns device time in seconds by day, tenant and profile.

        Args:
            tenant: Name of a tenant; "" means all.
            first_day: First day in UTC, "2026-11-21"; "" means six days before the last one.
            last_day: Last day in UTC; "" means today.
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
        """Returns a page of administration calls and rejected calls, newest first.

        Args:
            tenant: Name of a tenant; "" means unauthenticated callers, None all callers.
            outcome: "OK", or the status of the API: "UNAUTHENTICATED" over gRPC, "unauthenticated"
                over Connect, "401" over REST.
            since: Earliest time in seconds since 1970.
            until: End of the time span, exclusive, in seconds since 1970.
            cursor: Cursor of the previous page; "" means the first page.
            limit: Greatest number of entries, up to 1000; 0 means 100.
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
        """Returns the open sessions of a tenant or of all, by ids that grant no access to them."""
        request = request_of(admin.ListSessionsRequest, tenant=tenant)
        return list((await self._connection.call(methods.LIST_SESSIONS, request)).sessions)

    async def release_session(self, session_id: str, *, force: bool = False) -> None:
        """Ends a session by its id; a session with unfinished work needs `force` (107000)."""
        session_id = named(session_id, parameter="session_id")
        request = request_of(admin.ReleaseSessionRequest, id=session_id, force=force)
        await self._connection.call(methods.RELEASE_SESSION, request)

    async def get_activity(self) -> admin.GetActivityResponse:
        """Returns the current activity of devices and tenants."""
        request = admin.GetActivityRequest()
        return await self._connection.call(methods.GET_ACTIVITY, request)

    async def drain_service(self) -> None:
        """Begins the end of the service, as SIGTERM does: it accepts no new work."""
        await self._connection.call(methods.DRAIN_SERVICE, admin.DrainServiceRequest())
