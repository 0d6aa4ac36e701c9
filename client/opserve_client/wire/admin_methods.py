"""Calls of administration: messages and RPCs, in one table."""

from typing import Any

from opserve.v1 import admin_service_pb2 as admin
from opserve_client.wire.methods import Method

CREATE_TENANT = Method(
    "AdminService/CreateTenant",
    admin.CreateTenantRequest,
    admin.CreateTenantResponse,
)
LIST_TENANTS = Method(
    "AdminService/ListTenants",
    admin.ListTenantsRequest,
    admin.ListTenantsResponse,
)
GET_TENANT = Method(
    "AdminService/GetTenant",
    admin.GetTenantRequest,
    admin.GetTenantResponse,
)
UPDATE_TENANT = Method(
    "AdminService/UpdateTenant",
    admin.UpdateTenantRequest,
    admin.UpdateTenantResponse,
)
DELETE_TENANT = Method(
    "AdminService/DeleteTenant",
    admin.DeleteTenantRequest,
    admin.DeleteTenantResponse,
)
CREATE_KEY = Method(
    "AdminService/CreateKey",
    admin.CreateKeyRequest,
    admin.CreateKeyResponse,
)
LIST_KEYS = Method(
    "AdminService/ListKeys",
    admin.ListKeysRequest,
    admin.ListKeysResponse,
)
REVOKE_KEY = Method(
    "AdminService/RevokeKey",
    admin.RevokeKeyRequest,
    admin.RevokeKeyResponse,
)
ADD_CERTIFICATE = Method(
    "AdminService/AddCertificate",
    admin.AddCertificateRequest,
    admin.AddCertificateResponse,
)
LIST_CERTIFICATES = Method(
    "AdminService/ListCertificates",
    admin.ListCertificatesRequest,
    admin.ListCertificatesResponse,
)
REMOVE_CERTIFICATE = Method(
    "AdminService/RemoveCertificate",
    admin.RemoveCertificateRequest,
    admin.RemoveCertificateResponse,
)
ADD_IDENTITY = Method(
    "AdminService/AddIdentity",
    admin.AddIdentityRequest,
    admin.AddIdentityResponse,
)
LIST_IDENTITIES = Method(
    "AdminService/ListIdentities",
    admin.ListIdentitiesRequest,
    admin.ListIdentitiesResponse,
)
REMOVE_IDENTITY = Method(
    "AdminService/RemoveIdentity",
    admin.RemoveIdentityRequest,
    admin.RemoveIdentityResponse,
)
LIST_USAGE = Method(
    "AdminService/ListUsage",
    admin.ListUsageRequest,
    admin.ListUsageResponse,
)
LIST_AUDIT = Method(
    "AdminService/ListAudit",
    admin.ListAuditRequest,
    admin.ListAuditResponse,
)
LIST_SESSIONS = Method(
    "AdminService/ListSessions",
    admin.ListSessionsRequest,
    admin.ListSessionsResponse,
)
RELEASE_SESSION = Method(
    "AdminService/ReleaseSession",
    admin.ReleaseSessionRequest,
    admin.ReleaseSessionResponse,
)
GET_ACTIVITY = Method(
    "AdminService/GetActivity",
    admin.GetActivityRequest,
    admin.GetActivityResponse,
)
DRAIN_SERVICE = Method(
    "AdminService/DrainService",
    admin.DrainServiceRequest,
    admin.DrainServiceResponse,
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
    DRAIN_SERVICE,
)
