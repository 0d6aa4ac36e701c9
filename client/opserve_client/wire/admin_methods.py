"""Calls of administration: messages, gRPC names and REST routes, in one table."""

from typing import Any

from opserve.v1 import admin_service_pb2 as admin
from opserve_client.wire.methods import Method

_TENANTS = "/v1/admin/tenants"
_TENANT = _TENANTS + "/{tenant}"
_KEYS = "/v1/admin/keys"
_CERTIFICATES = "/v1/admin/certificates"
_IDENTITIES = "/v1/admin/identities"
_SESSIONS = "/v1/admin/sessions"

CREATE_TENANT = Method(
    "AdminService/CreateTenant",
    admin.CreateTenantRequest,
    admin.CreateTenantResponse,
    "POST",
    _TENANTS,
)
LIST_TENANTS = Method(
    "AdminService/ListTenants",
    admin.ListTenantsRequest,
    admin.ListTenantsResponse,
    "GET",
    _TENANTS,
)
GET_TENANT = Method(
    "AdminService/GetTenant",
    admin.GetTenantRequest,
    admin.GetTenantResponse,
    "GET",
    _TENANT,
)
UPDATE_TENANT = Method(
    "AdminService/UpdateTenant",
    admin.UpdateTenantRequest,
    admin.UpdateTenantResponse,
    "PATCH",
    _TENANT,
)
DELETE_TENANT = Method(
    "AdminService/DeleteTenant",
    admin.DeleteTenantRequest,
    admin.DeleteTenantResponse,
    "DELETE",
    _TENANT,
)
CREATE_KEY = Method(
    "AdminService/CreateKey",
    admin.CreateKeyRequest,
    admin.CreateKeyResponse,
    "POST",
    _KEYS,
)
LIST_KEYS = Method(
    "AdminService/ListKeys",
    admin.ListKeysRequest,
    admin.ListKeysResponse,
    "GET",
    _KEYS,
)
REVOKE_KEY = Method(
    "AdminService/RevokeKey",
    admin.RevokeKeyRequest,
    admin.RevokeKeyResponse,
    "DELETE",
    _KEYS + "/{key}",
)
ADD_CERTIFICATE = Method(
    "AdminService/AddCertificate",
    admin.AddCertificateRequest,
    admin.AddCertificateResponse,
    "POST",
    _CERTIFICATES,
)
LIST_CERTIFICATES = Method(
    "AdminService/ListCertificates",
    admin.ListCertificatesRequest,
    admin.ListCertificatesResponse,
    "GET",
    _CERTIFICATES,
)
REMOVE_CERTIFICATE = Method(
    "AdminService/RemoveCertificate",
    admin.RemoveCertificateRequest,
    admin.RemoveCertificateResponse,
    "DELETE",
    _CERTIFICATES,
)
ADD_IDENTITY = Method(
    "AdminService/AddIdentity",
    admin.AddIdentityRequest,
    admin.AddIdentityResponse,
    "POST",
    _IDENTITIES,
)
LIST_IDENTITIES = Method(
    "AdminService/ListIdentities",
    admin.ListIdentitiesRequest,
    admin.ListIdentitiesResponse,
    "GET",
    _IDENTITIES,
)
REMOVE_IDENTITY = Method(
    "AdminService/RemoveIdentity",
    admin.RemoveIdentityRequest,
    admin.RemoveIdentityResponse,
    "DELETE",
    _IDENTITIES + "/{id}",
)
LIST_USAGE = Method(
    "AdminService/ListUsage",
    admin.ListUsageRequest,
    admin.ListUsageResponse,
    "GET",
    "/v1/admin/usage",
)
LIST_AUDIT = Method(
    "AdminService/ListAudit",
    admin.ListAuditRequest,
    admin.ListAuditResponse,
    "GET",
    "/v1/admin/audit",
)
LIST_SESSIONS = Method(
    "AdminService/ListSessions",
    admin.ListSessionsRequest,
    admin.ListSessionsResponse,
    "GET",
    _SESSIONS,
)
RELEASE_SESSION = Method(
    "AdminService/ReleaseSession",
    admin.ReleaseSessionRequest,
    admin.ReleaseSessionResponse,
    "DELETE",
    _SESSIONS + "/{id}",
)
GET_ACTIVITY = Method(
    "AdminService/GetActivity",
    admin.GetActivityRequest,
    admin.GetActivityResponse,
    "GET",
    "/v1/admin/activity",
)

ADMIN_METHODS: tuple[Method[Any, Any], ...] = (
    CREATE_TENANT,
    LIST_TENANTS,
    GET_TENANT,
    UPDATE_TENANT,
    DELETE_TENANT,
    CREATE_KEY,
    LIST_KEYS,
    REVOKE_KEY,
    ADD_CERTIFICATE,
    LIST_CERTIFICATES,
    REMOVE_CERTIFICATE,
    ADD_IDENTITY,
    LIST_IDENTITIES,
    REMOVE_IDENTITY,
    LIST_USAGE,
    LIST_AUDIT,
    LIST_SESSIONS,
    RELEASE_SESSION,
    GET_ACTIVITY,
)
