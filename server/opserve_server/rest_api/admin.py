"""Routes of administration, as a table."""

from collections.abc import Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from opserve_server import admin_calls as calls
from opserve_server.admin_answers import Nothing
from opserve_server.admin_audit import audited
from opserve_server.administration import Administration
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import Endpoint
from opserve_server.rest_api.values import ValueRoute, value_operations

_TENANTS = "/v1/admin/tenants"
_TENANT = f"{_TENANTS}/{{tenant}}"
_KEYS = "/v1/admin/keys"
_CERTIFICATES = "/v1/admin/certificates"
_SESSIONS = "/v1/admin/sessions"


def _route(method: str, path: str, request: type) -> ValueRoute:
    answer = calls.ANSWERS[request]
    return ValueRoute(method, path, request, None if answer is Nothing else answer)


ADMIN_ROUTES = (
    _route("POST", _TENANTS, calls.CreateTenant),
    _route("GET", _TENANTS, calls.ListTenants),
    _route("GET", _TENANT, calls.GetTenant),
    _route("PATCH", _TENANT, calls.UpdateTenant),
    _route("DELETE", _TENANT, calls.DeleteTenant),
    _route("POST", _KEYS, calls.CreateKey),
    _route("GET", _KEYS, calls.ListKeys),
    _route("DELETE", f"{_KEYS}/{{key}}", calls.RevokeKey),
    _route("POST", _CERTIFICATES, calls.AddCertificate),
    _route("GET", _CERTIFICATES, calls.ListCertificates),
    _route("DELETE", _CERTIFICATES, calls.RemoveCertificate),
    _route("GET", "/v1/admin/usage", calls.ListUsage),
    _route("GET", "/v1/admin/audit", calls.ListAudit),
    _route("GET", _SESSIONS, calls.ListSessions),
    _route("DELETE", f"{_SESSIONS}/{{id}}", calls.ReleaseSession),
    _route("GET", "/v1/admin/activity", calls.GetActivity),
)


def admin_operations(administration: Administration, limit: int) -> Iterator[Operation]:
    """Every route of administration; a body has at most `limit` bytes."""
    for operation in value_operations(ADMIN_ROUTES, administration.run, limit):
        yield replace(operation, endpoint=_audited(operation.endpoint))


def _audited(endpoint: Endpoint) -> Endpoint:
    async def recorded(request: Request) -> Response:
        with audited():
            return await endpoint(request)

    return recorded
