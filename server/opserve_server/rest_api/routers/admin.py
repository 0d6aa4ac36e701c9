"""Administration: tenants, keys, certificates, usage, audit and sessions."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from opserve_server import admin_calls as calls
from opserve_server.admin_answers import (
    Activity,
    AllTenants,
    AuditEntries,
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
    TenantAtWork,
    UsageRows,
)
from opserve_server.admin_audit import audited
from opserve_server.rest_api.bodies import while_connected
from opserve_server.rest_api.dependencies import backend_of, from_body, from_query, requires
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.route import ServiceRoute

AnswerT = TypeVar("AnswerT")


class AuditedRoute(ServiceRoute):
    """A route whose errors are audited."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def recorded(request: Request) -> Response:
            with audited():
                return await handle(request)

        return recorded


@dataclass(frozen=True, slots=True)
class AdminCall:
    """A call of administration, which ends when its client disconnects.

    Attributes:
        request: The HTTP request.
    """

    request: Request

    async def run(self, params: object, answer: type[AnswerT]) -> AnswerT:
        """Executes a request, whose answer has the type `answer`."""
        running = backend_of(self.request).administration.run(params)
        answered = await while_connected(self.request, running)
        assert isinstance(answered, answer), "ANSWERS has it"
        return answered


Call = Annotated[AdminCall, Depends(AdminCall)]
router = APIRouter(
    prefix="/v1/admin",
    tags=["admin"],
    route_class=AuditedRoute,
    dependencies=[requires(calls.SCOPE)],
)


@router.post("/tenants", name="CreateTenant", status_code=201, responses=problems(404, 409))
async def create_tenant(
    call: Call, params: Annotated[calls.CreateTenant, from_body(calls.CreateTenant)]
) -> OneTenant:
    """Adds a tenant."""
    return await call.run(params, OneTenant)


@router.get("/tenants", name="ListTenants")
async def list_tenants(
    call: Call, params: Annotated[calls.ListTenants, from_query(calls.ListTenants)]
) -> AllTenants:
    """Lists tenants by name."""
    return await call.run(params, AllTenants)


@router.get("/tenants/{tenant}", name="GetTenant", responses=problems(404))
async def get_tenant(
    call: Call, params: Annotated[calls.GetTenant, from_query(calls.GetTenant, "tenant")]
) -> TenantAtWork:
    """Returns one tenant and its current use."""
    return await call.run(params, TenantAtWork)


@router.patch("/tenants/{tenant}", name="UpdateTenant", responses=problems(404, 409))
async def update_tenant(
    call: Call, params: Annotated[calls.UpdateTenant, from_body(calls.UpdateTenant, "tenant")]
) -> OneTenant:
    """Changes the given fields of a tenant, and leaves the rest."""
    return await call.run(params, OneTenant)


@router.delete(
    "/tenants/{tenant}", name="DeleteTenant", status_code=204, responses=problems(404, 409)
)
async def delete_tenant(
    call: Call, params: Annotated[calls.DeleteTenant, from_query(calls.DeleteTenant, "tenant")]
) -> None:
    """Ends a tenant, its keys and its sessions; its name is never used again."""
    await call.run(params, Nothing)


@router.post("/keys", name="CreateKey", status_code=201, responses=problems(404, 409))
async def create_key(
    call: Call, params: Annotated[calls.CreateKey, from_body(calls.CreateKey)]
) -> NewKey:
    """Makes an API key, whose text is returned only once."""
    return await call.run(params, NewKey)


@router.get("/keys", name="ListKeys")
async def list_keys(
    call: Call, params: Annotated[calls.ListKeys, from_query(calls.ListKeys)]
) -> SomeKeys:
    """Lists keys of a tenant or of all, also revoked and expired ones."""
    return await call.run(params, SomeKeys)


@router.delete("/keys/{key}", name="RevokeKey", responses=problems(404, 409))
async def revoke_key(
    call: Call, params: Annotated[calls.RevokeKey, from_query(calls.RevokeKey, "key")]
) -> OneKey:
    """Ends a key for good."""
    return await call.run(params, OneKey)


@router.post("/certificates", name="AddCertificate", status_code=201, responses=problems(404, 409))
async def add_certificate(
    call: Call, params: Annotated[calls.AddCertificate, from_body(calls.AddCertificate)]
) -> OneCertificate:
    """Registers a client certificate for a principal."""
    return await call.run(params, OneCertificate)


@router.get("/certificates", name="ListCertificates")
async def list_certificates(
    call: Call, params: Annotated[calls.ListCertificates, from_query(calls.ListCertificates)]
) -> SomeCertificates:
    """Lists the certificates of a tenant, or of all."""
    return await call.run(params, SomeCertificates)


@router.delete(
    "/certificates", name="RemoveCertificate", status_code=204, responses=problems(404, 409)
)
async def remove_certificate(
    call: Call, params: Annotated[calls.RemoveCertificate, from_query(calls.RemoveCertificate)]
) -> None:
    """Removes a client certificate."""
    await call.run(params, Nothing)


@router.post("/identities", name="AddIdentity", status_code=201, responses=problems(404, 409))
async def add_identity(
    call: Call, params: Annotated[calls.AddIdentity, from_body(calls.AddIdentity)]
) -> OneIdentity:
    """Trusts tokens of an issuer, such as those of a CI system, for a principal."""
    return await call.run(params, OneIdentity)


@router.get("/identities", name="ListIdentities")
async def list_identities(
    call: Call, params: Annotated[calls.ListIdentities, from_query(calls.ListIdentities)]
) -> SomeIdentities:
    """Lists the trusted identities of a tenant, or of all, the oldest first."""
    return await call.run(params, SomeIdentities)


@router.delete(
    "/identities/{id}", name="RemoveIdentity", status_code=204, responses=problems(404, 409)
)
async def remove_identity(
    call: Call, params: Annotated[calls.RemoveIdentity, from_query(calls.RemoveIdentity, "id")]
) -> None:
    """Removes a trusted identity."""
    await call.run(params, Nothing)


@router.get("/usage", name="ListUsage")
async def list_usage(
    call: Call, params: Annotated[calls.ListUsage, from_query(calls.ListUsage)]
) -> UsageRows:
    """Lists device time by day, tenant and profile."""
    return await call.run(params, UsageRows)


@router.get("/audit", name="ListAudit")
async def list_audit(
    call: Call, params: Annotated[calls.ListAudit, from_query(calls.ListAudit)]
) -> AuditEntries:
    """Lists calls of administration and rejected callers, the newest first."""
    return await call.run(params, AuditEntries)


@router.get("/sessions", name="ListSessions")
async def list_sessions(
    call: Call, params: Annotated[calls.ListSessions, from_query(calls.ListSessions)]
) -> SomeSessions:
    """Lists sessions: those of a tenant, or all."""
    return await call.run(params, SomeSessions)


@router.delete(
    "/sessions/{id}", name="ReleaseSession", status_code=204, responses=problems(404, 409)
)
async def release_session(
    call: Call, params: Annotated[calls.ReleaseSession, from_query(calls.ReleaseSession, "id")]
) -> None:
    """Ends a session; one with work only with force."""
    await call.run(params, Nothing)


@router.post("/drain", name="DrainService", status_code=204)
async def drain_service(
    call: Call, params: Annotated[calls.DrainService, from_body(calls.DrainService)]
) -> None:
    """Begins the end of the service, as SIGTERM does: it accepts no new work."""
    await call.run(params, Nothing)


@router.get("/activity", name="GetActivity")
async def get_activity(
    call: Call, params: Annotated[calls.GetActivity, from_query(calls.GetActivity)]
) -> Activity:
    """Returns the current activity of devices and tenants."""
    return await call.run(params, Activity)
