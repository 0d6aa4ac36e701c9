"""Rules of administration: names, scopes, days, bounds, and the last administrator."""

import json
import re
from collections.abc import Collection
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from math import inf

from opserve_kernels.status import Status
from opserve_kernels.user_input import choices
from opserve_server.core.directory import Directory, TrustedIdentity
from opserve_server.core.errors import InvalidArgument, WrongState
from opserve_server.core.keys import PREFIX, sha256_of
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.tenants import Quota, Resource, Tenant

WEIGHTS = (1, 1000)
PRIORITY_LIMITS = (0, 1000)
LIMIT_MAXIMUM = 2**63 - 1
"""Maximum of a column of the store."""
LIFETIME_MAXIMUM_S = 100 * 366 * 86400.0
"""A century."""
SUBJECT_CHARACTERS = 1024
CLAIMS_LIMIT = 16
CLAIM_CHARACTERS = 512
IDENTIFYING_CLAIMS = (
    *("sub", "repository", "repository_id", "repository_owner", "repository_owner_id"),
    *("project_path", "project_id", "namespace_path", "namespace_id"),
)
"""Claims of which an identity names one: every user of a public issuer has tokens with the rest."""
USAGE_DAYS = 7
"""Days of usage by default."""
USAGE_DAYS_LIMIT = 92
AUDIT_ENTRIES = 100
"""Entries of a page by default."""
AUDIT_ENTRIES_LIMIT = 1000
_TENANT = re.compile(r"[a-z0-9-]{1,63}")
_NAMES = "1 to 63 lower case letters, digits and hyphens"
_PRINCIPAL = re.compile(r"[A-Za-z0-9._@-]{1,63}")
_KEY = re.compile(r"[0-9a-f]{8}")
_STATUSES = (
    *("OK", "UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "DATA_LOSS"),
)
"""Names of statuses over gRPC; over Connect they are in lower case."""
_HTTP_STATUS = re.compile(r"[1-5][0-9]{2}")
_SESSION = re.compile(r"[0-9a-f]{1,8}")
_CLAIM = re.compile(r"([A-Za-z_][A-Za-z0-9_.:/-]{0,127})=(.+)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def check_filters(tenant: str | None, outcome: str | None) -> None:
    """Rejects a filter that is no tenant or outcome; empty means none, None means any."""
    if tenant and not _TENANT.fullmatch(tenant):
        raise refused("tenant", tenant, _NAMES)
    if outcome and outcome.upper() not in _STATUSES and not _HTTP_STATUS.fullmatch(outcome):
        raise refused("outcome", outcome, choices(("401", *_STATUSES), outcome))


def new_tenant_name(given: str) -> str:
    """Validates the name of a new tenant."""
    if not _TENANT.fullmatch(given):
        raise refused("tenant", given, _NAMES)
    if given == LOCAL.tenant:
        raise refused("tenant", given, "a name other than that of callers without a key")
    return given


def principal_of(tenant: str, name: str, scopes: tuple[str, ...]) -> Principal:
    """Validates a principal for a key or certificate; the default scope is operate."""
    if not _PRINCIPAL.fullmatch(name) or name.startswith(PREFIX):
        raise refused("principal", name, "1 to 63 letters, digits and ._@-")
    for scope in scopes:
        if scope not in set(Scope):
            raise refused("scopes", scope, choices(list(Scope), scope))
    return Principal(tenant=tenant, name=name, scopes=frozenset(map(Scope, scopes or ("operate",))))


def key_id(given: str) -> str:
    """Validates the id of a key."""
    if not _KEY.fullmatch(given):
        raise refused("key", given, "the id of a key: eight hexadecimal digits")
    return given


def session_id(given: str) -> str:
    """Validates the id of a session. A whole name is not repeated, since it is a secret."""
    if not _SESSION.fullmatch(given):
        raise refused("id", "another text", "the id of a session, as `opserve who` shows it")
    return given


def subject(given: str) -> str:
    """Validates a name in a client certificate."""
    if not 0 < len(given) <= SUBJECT_CHARACTERS or not given.isprintable():
        raise refused(
            "subject", given, f"1 to {SUBJECT_CHARACTERS} printable characters: CN=ci,O=Farm"
        )
    return given


def new_identity(
    issuer: str,
    audience: str,
    claims: tuple[str, ...],
    *,
    principal: Principal,
    issuers: Collection[str],
    now: float,
) -> TrustedIdentity:
    """Validates a trusted identity.

    Args:
        issuer: Claim `iss`.
        audience: Claim `aud`.
        claims: Further claims, as "name=value".
        principal: The principal.
        issuers: Issuers that the settings allow.
        now: Seconds since 1970.
    """
    if issuer not in issuers:
        listed = ", ".join(issuers) or "none"
        raise refused("issuer", issuer, f"one of OPSERVE_IDENTITY_ISSUERS: {listed}")
    if not 0 < len(audience) <= CLAIM_CHARACTERS or not audience.isprintable():
        raise refused("audience", audience, f"1 to {CLAIM_CHARACTERS} printable characters")
    names = [_claim_name(claim) for claim in claims]
    if not 0 < len(names) <= CLAIMS_LIMIT or len(names) != len(set(names)):
        raise refused("claims", ", ".join(names), f"1 to {CLAIMS_LIMIT} claims of different names")
    if not set(names) & set(IDENTIFYING_CLAIMS):
        allowed = f"claims with one of {', '.join(IDENTIFYING_CLAIMS)}"
        raise refused("claims", ", ".join(names), allowed)
    condition = json.dumps([issuer, audience, sorted(claims)])
    return TrustedIdentity(
        id=sha256_of(condition).hex()[:8],
        issuer=issuer,
        audience=audience,
        claims=tuple(sorted(claims)),
        principal=principal,
        created_at=now,
    )


def identity_id(given: str) -> str:
    """Validates the id of a trusted identity."""
    if not _KEY.fullmatch(given):
        raise refused("id", given, "the id of an identity: eight hexadecimal digits")
    return given


def _claim_name(claim: str) -> str:
    matched = _CLAIM.fullmatch(claim)
    if matched is None or len(claim) > CLAIM_CHARACTERS or not claim.isprintable():
        allowed = "name=value in printable characters: repository=farm/kernels"
        raise refused("claims", claim, allowed)
    return matched[1]


def between(name: str, given: float | None, least: float, most: float) -> None:
    """Rejects a number out of bounds; None is accepted."""
    if given is not None and not least <= given <= most:
        raise refused(name, given, f"{least:.15g} to {most:.15g}")


def check_quota(quota: Quota) -> None:
    """Rejects limits out of bounds."""
    for name, limit in asdict(quota).items():
        if limit is not None and not (0 <= limit <= LIMIT_MAXIMUM and limit < inf):
            raise refused(f"quota.{name}", limit, f"0 to {LIMIT_MAXIMUM}")


def resources(given: tuple[str, ...]) -> tuple[Resource, ...]:
    """Resources by name."""
    for name in given:
        if name not in set(Resource):
            raise refused("unlimited", name, choices(list(Resource), name))
    return tuple(map(Resource, given))


def days(first: str, last: str, *, now: float) -> tuple[date, date]:
    """The requested days in UTC, both included."""
    end = _day("last_day", last) if last else datetime.fromtimestamp(now, UTC).date()
    # The first days of the calendar have no days before them.
    earliest = max(end.toordinal() - USAGE_DAYS + 1, 1)
    begin = _day("first_day", first) if first else date.fromordinal(earliest)
    if not timedelta(0) <= end - begin < timedelta(days=USAGE_DAYS_LIMIT):
        allowed = f"at most {USAGE_DAYS_LIMIT} days, the last of which is {end}"
        raise refused("first_day", begin, allowed)
    return begin, end


def check_administered(directory: Directory, *, now: float) -> None:
    """Rejects a change after which no caller could administer the service.

    Args:
        directory: The directory after the change.
        now: Seconds since 1970.
    """
    if not is_administered(directory, now=now):
        allowed = "a change that leaves a caller who can administer, or force"
        raise WrongState(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            "This change leaves no caller with the scope admin: give it to another one first, or "
            "pass --force (force=True).",
            parameter="force",
            given="the last caller with the scope admin",
            allowed=allowed,
        )


def is_administered(directory: Directory, *, now: float) -> bool:
    """Whether a live key or certificate has the scope admin."""
    live_keys = (
        key.principal
        for key in directory.keys.values()
        if key.revoked_at is None and (key.expires_at is None or key.expires_at > now)
    )
    return any(
        Scope.ADMIN in principal.scopes and _may_call(directory.tenants.get(principal.tenant))
        for principal in (*live_keys, *directory.certificates.values())
    )


def refused(parameter: str, given: object, allowed: str) -> InvalidArgument:
    """Rejects a value (107000); the text of a key is not repeated."""
    shown = "another text" if PREFIX in str(given) else str(given)[:64]
    return InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        parameter=parameter,
        given=shown,
        allowed=allowed,
    )


def _may_call(tenant: Tenant | None) -> bool:
    return tenant is not None and not tenant.disabled and tenant.quota.calls_per_s != 0


def _day(name: str, given: str) -> date:
    try:
        if _DAY.fullmatch(given):
            return date.fromisoformat(given)
    except ValueError:
        pass
    raise refused(name, given, "a day: 2026-11-21")
