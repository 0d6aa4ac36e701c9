"""Routes of administration, as a table: what a path does not name comes from body or query."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pydantic_core
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from opserve_server import admin_calls as calls
from opserve_server.admin_audit import audited
from opserve_server.administration import Administration
from opserve_server.rest_api.bodies import JSON, read_json
from opserve_server.rest_api.models import derived, parse, parse_query, values_of
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import Endpoint, path_names

_TENANTS = "/v1/admin/tenants"
_TENANT = f"{_TENANTS}/{{tenant}}"
_KEYS = "/v1/admin/keys"
_CERTIFICATES = "/v1/admin/certificates"
_SESSIONS = "/v1/admin/sessions"
_WITH_BODY = frozenset({"POST", "PATCH"})


@dataclass(frozen=True, slots=True)
class AdminRoute:
    """A call of administration, by method and path."""

    method: str
    path: str
    request: Any  # type[object]; it is called with fields known at run time

    @property
    def answer(self) -> type | None:
        """Type of the answer; None where there is nothing to tell."""
        answer = calls.ANSWERS[self.request]
        return None if answer is calls.Nothing else answer

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of success."""
        if self.answer is None:
            return HTTPStatus.NO_CONTENT
        return HTTPStatus.CREATED if self.method == "POST" else HTTPStatus.OK


ADMIN_ROUTES = (
    AdminRoute("POST", _TENANTS, calls.CreateTenant),
    AdminRoute("GET", _TENANTS, calls.ListTenants),
    AdminRoute("GET", _TENANT, calls.GetTenant),
    AdminRoute("PATCH", _TENANT, calls.UpdateTenant),
    AdminRoute("DELETE", _TENANT, calls.DeleteTenant),
    AdminRoute("POST", _KEYS, calls.CreateKey),
    AdminRoute("GET", _KEYS, calls.ListKeys),
    AdminRoute("DELETE", f"{_KEYS}/{{key}}", calls.RevokeKey),
    AdminRoute("POST", _CERTIFICATES, calls.AddCertificate),
    AdminRoute("GET", _CERTIFICATES, calls.ListCertificates),
    AdminRoute("DELETE", _CERTIFICATES, calls.RemoveCertificate),
    AdminRoute("GET", "/v1/admin/usage", calls.ListUsage),
    AdminRoute("GET", "/v1/admin/audit", calls.ListAudit),
    AdminRoute("GET", _SESSIONS, calls.ListSessions),
    AdminRoute("DELETE", f"{_SESSIONS}/{{id}}", calls.ReleaseSession),
    AdminRoute("GET", "/v1/admin/activity", calls.GetActivity),
)


def admin_operations(administration: Administration, limit: int) -> Iterator[Operation]:
    """Every route of administration; a body has at most `limit` bytes."""
    for route in ADMIN_ROUTES:
        name = route.request.__name__
        model = derived(route.request, f"{name}Body", without=path_names(route.path))
        given = model if model.model_fields else None
        has_body = route.method in _WITH_BODY
        yield Operation(
            method=route.method,
            path=route.path,
            endpoint=_endpoint(administration, route, model, limit=limit),
            name=name,
            summary=str(route.request.__doc__),
            status=route.status,
            body=given if has_body else None,
            query=None if has_body else given,
            answer=route.answer,
        )


def _endpoint(
    administration: Administration, route: AdminRoute, model: type[BaseModel], *, limit: int
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        with audited():
            if route.method in _WITH_BODY:
                given = parse(model, await read_json(request, limit=limit))
            else:
                given = parse_query(model, request.query_params)
            asked = route.request(**request.path_params, **values_of(given))
            answer = await administration.run(asked)
        if route.answer is None:
            return Response(status_code=route.status)
        content = pydantic_core.to_json(answer)
        return Response(content, status_code=route.status, media_type=JSON)

    return endpoint
