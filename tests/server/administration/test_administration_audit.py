"""Calls of administration in the audit: each is there, refused ones too, or it fails."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import pytest
from sqlalchemy import text

from opserve_client import AclrtError, AsyncClient
from opserve_server.admin_calls import ANSWERS
from opserve_server.admin_rules import new_identity
from opserve_server.core.keys import new_key
from opserve_server.core.principal import LOCAL, Principal, Scope
from server.deployment import APIS, NOW, Deployment, refusal
from server.store.samples import engine_of
from server.token_issuer import ISSUER

Call = Callable[[AsyncClient], Awaitable[object]]


async def test_every_call_is_in_the_audit_with_caller_and_subject(
    deployment: Deployment, client: AsyncClient, api: str
) -> None:
    before = len(await deployment.audit())
    await client.admin.create_tenant("lab", weight=2, quota={"sessions": 1})
    key = await client.admin.create_key("lab", "ci", scopes=["operate", "metrics"])
    await client.admin.list_tenants()
    await refusal(client.admin.get_tenant("mill"))
    await refusal(client.admin.create_tenant("Bad name"))
    await client.admin.list_audit(tenant="lab", limit=3)
    entries = (await deployment.audit())[before:]
    assert {(one.tenant, one.principal, one.face) for one in entries} == {
        ("admin", "bootstrap", api)
    }
    assert all(one.request_id for one in entries)
    outcomes = sorted((one.method, one.outcome, one.detail or one.reason) for one in entries)
    missing, wrong = {"grpc": ("NOT_FOUND", "INVALID_ARGUMENT"), "rest": ("404", "400")}[api]
    name = "1 to 63 lower case letters, digits and hyphens"
    assert outcomes == sorted(
        [
            ("CreateTenant", "OK", "tenant=lab weight=2 sessions=1"),
            (
                "CreateKey",
                "OK",
                f"tenant=lab principal=ci scopes=operate,metrics key={key.key.id}",
            ),
            ("ListTenants", "OK", ""),
            ("GetTenant", missing, "There is no tenant 'mill'; use the name of a tenant."),
            ("CreateTenant", wrong, f"tenant does not accept Bad name; it accepts {name}."),
            ("ListAudit", "OK", "tenant=lab limit=3"),
        ]
    )


async def test_the_audit_is_read_page_by_page(deployment: Deployment, client: AsyncClient) -> None:
    for number in range(5):
        deployment.clock.now += 1
        await client.admin.create_tenant(f"t{number}")
    deployment.clock.now += 1
    first = await client.admin.list_audit(since=NOW + 2, until=NOW + 6, limit=3)
    assert [entry.detail for entry in first.entries] == ["tenant=t4", "tenant=t3", "tenant=t2"]
    rest = await client.admin.list_audit(since=NOW + 2, until=NOW + 6, limit=3, cursor=first.cursor)
    assert [entry.detail for entry in rest.entries] == ["tenant=t1"]
    assert not rest.cursor
    nobody = await client.admin.list_audit(tenant="")
    assert {entry.face for entry in nobody.entries} == {"cli"}, "bootstrap alone"
    assert (await refusal(client.admin.list_audit(cursor="!"))).parameter == "cursor"


async def _identity(
    client: AsyncClient,
    *,
    issuer: str = ISSUER,
    audience: str = "farm",
    claims: Mapping[str, str] = MappingProxyType({"repository": "farm/kernels"}),
) -> object:
    return await client.admin.add_identity(
        issuer, audience=audience, claims=claims, tenant="admin", principal="ci"
    )


LONG = "x" * 64
SECRET = new_key()
WRONG: Mapping[str, tuple[Call, str]] = {
    "a name in capitals": (lambda c: c.admin.create_tenant("Lab"), "tenant"),
    "a name that is too long": (lambda c: c.admin.create_tenant(LONG), "tenant"),
    "the name of unauthenticated callers": (lambda c: c.admin.create_tenant("local"), "tenant"),
    "no weight": (lambda c: c.admin.create_tenant("lab", weight=0), "weight"),
    "too great a weight": (lambda c: c.admin.update_tenant("admin", weight=1001), "weight"),
    "too great a priority": (
        lambda c: c.admin.update_tenant("admin", priority_limit=1001),
        "priority_limit",
    ),
    "less than nothing": (
        lambda c: c.admin.create_tenant("lab", quota={"sessions": -1}),
        "quota.sessions",
    ),
    "endless calls": (
        lambda c: c.admin.create_tenant("lab", quota={"calls_per_s": 1e300}),
        "quota.calls_per_s",
    ),
    "a principal with a space": (lambda c: c.admin.create_key("admin", "a b"), "principal"),
    "an unknown scope": (lambda c: c.admin.create_key("admin", "a", scopes=["root"]), "scopes"),
    "no time to live": (lambda c: c.admin.create_key("admin", "a", lifetime_s=0), "lifetime_s"),
    "a key in place of its id": (lambda c: c.admin.revoke_key(SECRET), "key"),
    "a key in place of a tenant": (lambda c: c.admin.list_keys(SECRET), "tenant"),
    "a key in place of a caller": (lambda c: c.admin.create_key("admin", SECRET), "principal"),
    "a subject with a line": (
        lambda c: c.admin.add_certificate("CN=a\nb", tenant="admin", principal="a"),
        "subject",
    ),
    "an issuer that the settings do not list": (
        lambda c: _identity(c, issuer="https://evil.example"),
        "issuer",
    ),
    "no audience": (lambda c: _identity(c, audience=""), "audience"),
    "an audience with a line": (lambda c: _identity(c, audience="a\nb"), "audience"),
    "no claims": (lambda c: _identity(c, claims={}), "claims"),
    "claims of every repository": (
        lambda c: _identity(c, claims={"ref": "refs/heads/main", "environment": "prod"}),
        "claims",
    ),
    "a claim without a value": (lambda c: _identity(c, claims={"repository": ""}), "claims"),
    "a claim without a name": (lambda c: _identity(c, claims={"": "farm/kernels"}), "claims"),
    "a claim that is too long": (lambda c: _identity(c, claims={"sub": "x" * 513}), "claims"),
    "too many claims": (
        lambda c: _identity(c, claims={"sub": "x", **{f"c{n}": "x" for n in range(16)}}),
        "claims",
    ),
    "an identity's name in place of its id": (lambda c: c.admin.remove_identity("ci"), "id"),
    "a day that is none": (lambda c: c.admin.list_usage(first_day="2026-13-01"), "first_day"),
    "days in the wrong order": (
        lambda c: c.admin.list_usage(first_day="2026-12-02", last_day="2026-12-01"),
        "first_day",
    ),
    "too many days": (
        lambda c: c.admin.list_usage(first_day="2026-01-01", last_day="2026-12-01"),
        "first_day",
    ),
    "too long a page": (lambda c: c.admin.list_audit(limit=1001), "limit"),
    "an outcome that is none": (lambda c: c.admin.list_audit(outcome="ok\0"), "outcome"),
    "a tenant that is none": (lambda c: c.admin.list_keys("a\0b"), "tenant"),
}


async def test_values_out_of_bounds_are_refused_alike_by_both_apis(deployment: Deployment) -> None:
    before = await deployment.store.directory()
    for what, (call, parameter) in WRONG.items():
        answers: list[tuple[object, ...]] = []
        for api in APIS:
            async with deployment.client(api) as client:
                error = await refusal(call(client))
            answers.append((type(error), error.code, error.message, error.parameter))
            assert SECRET not in f"{error.message} {error.given}"
        assert answers[0] == answers[1], what
        assert answers[0][0::3] == (AclrtError, parameter), what
        assert answers[0][1] == 107000, what
    assert await deployment.store.directory() == before
    assert SECRET not in repr(await deployment.audit())


OTHER = {"repository": "farm/other"}
OTHER_ID = new_identity(
    ISSUER,
    "farm",
    ("repository=farm/other",),
    principal=LOCAL,
    issuers=[ISSUER],
    now=NOW,
).id
CALLS: Mapping[str, Call] = {
    "CreateTenant": lambda c: c.admin.create_tenant("mill"),
    "ListTenants": lambda c: c.admin.list_tenants(),
    "GetTenant": lambda c: c.admin.get_tenant("lab"),
    "UpdateTenant": lambda c: c.admin.update_tenant("lab", weight=2),
    "DeleteTenant": lambda c: c.admin.delete_tenant("lab"),
    "CreateKey": lambda c: c.admin.create_key("lab", "ci"),
    "ListKeys": lambda c: c.admin.list_keys(),
    "RevokeKey": lambda c: c.admin.revoke_key("00000000"),
    "AddCertificate": lambda c: c.admin.add_certificate("CN=x", tenant="lab", principal="x"),
    "ListCertificates": lambda c: c.admin.list_certificates(),
    "RemoveCertificate": lambda c: c.admin.remove_certificate("CN=y"),
    "AddIdentity": _identity,
    "ListIdentities": lambda c: c.admin.list_identities(),
    "RemoveIdentity": lambda c: c.admin.remove_identity(OTHER_ID),
    "ListUsage": lambda c: c.admin.list_usage(),
    "ListAudit": lambda c: c.admin.list_audit(),
    "ListSessions": lambda c: c.admin.list_sessions(),
    "ReleaseSession": lambda c: c.admin.release_session("00000000"),
    "GetActivity": lambda c: c.admin.get_activity(),
    "DrainService": lambda c: c.admin.drain_service(),
}


@pytest.fixture
async def furnished(client: AsyncClient) -> AsyncClient:
    """A client of a deployment that has the objects of every call."""
    await client.open_session()
    await client.admin.create_tenant("lab")
    await client.admin.add_certificate("CN=y", tenant="lab", principal="y")
    await _identity(client, claims=OTHER)
    return client


async def test_a_call_that_cannot_be_recorded_fails_and_changes_nothing(
    furnished: AsyncClient, deployment: Deployment, url: str
) -> None:
    before = await deployment.store.directory()
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit RENAME TO elsewhere"))
    for name, call in CALLS.items():
        if name in {"RevokeKey", "ReleaseSession", "ListAudit"}:
            continue  # tried below, on what is there; there is no audit to be read
        refused = await refusal(call(furnished))
        assert (refused.code, refused.parameter) == (507901, "store"), name
    (own,) = before.keys.values()
    (session,) = await _list_sessions(deployment)
    assert (await refusal(furnished.admin.release_session(session))).code == 507901
    assert await _list_sessions(deployment) == [session]
    assert (await refusal(furnished.admin.revoke_key(own.id, force=True))).code == 507901
    assert await deployment.store.directory() == before
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE elsewhere RENAME TO audit"))
    await engine.dispose()
    methods = {entry.method for entry in await deployment.audit() if entry.outcome != "OK"}
    assert methods == CALLS.keys() - {"ListAudit"}, "that they were tried is recorded later"


async def _list_sessions(deployment: Deployment) -> list[str]:
    admin = Principal(tenant="admin", name="test", scopes=frozenset(Scope))
    return [session.id for session in deployment.service.list_sessions(admin)]


def test_every_call_of_administration_is_tried_here() -> None:
    assert CALLS.keys() == {request.__name__ for request in ANSWERS}
