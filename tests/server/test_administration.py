"""What an administrator may do, over both faces: what is in force at once, refused and recorded."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from opserve_client import AclrtError, AsyncClient, AuthenticationError, OpserveError
from opserve_client.errors import PermissionDeniedError, QuotaExceeded
from opserve_server.admin_calls import ANSWERS
from opserve_server.bootstrap import Administered, first_key
from opserve_server.core.keys import is_well_formed, new_key
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Resource
from opserve_server.store.store import Store
from server.farm import FACES, NOW, Farm, open_farm
from server.store.samples import engine_of

Call = Callable[[AsyncClient], Awaitable[object]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'opserve.db'}"


@pytest.fixture
async def farm(url: str) -> AsyncIterator[Farm]:
    async with open_farm(url) as opened:
        yield opened


@pytest.fixture(params=FACES)
async def client(request: pytest.FixtureRequest, farm: Farm) -> AsyncIterator[AsyncClient]:
    async with farm.client(request.param) as connected:
        yield connected


async def refusal(call: Awaitable[object]) -> OpserveError:
    with pytest.raises(OpserveError) as caught:
        await call
    return caught.value


async def test_a_tenant_is_made_changed_and_ended(client: AsyncClient) -> None:
    admin = client.admin
    made = await admin.create_tenant(
        "lab", weight=3, quota={"sessions": 2, "calls_per_s": 0.5, "buffers": 0}
    )
    assert (made.name, made.weight, made.priority_limit, made.disabled) == ("lab", 3, 0, False)
    assert (made.quota.sessions, made.quota.calls_per_s, made.quota.buffers) == (2, 0.5, 0)
    assert made.quota.HasField("buffers")
    assert not made.quota.HasField("streams")
    limits = {"streams": 4, "sessions": None, "buffers": 0}
    changed = await admin.update_tenant("lab", priority_limit=5, quota=limits)
    assert (changed.weight, changed.priority_limit) == (3, 5), "what is not given stays"
    assert (changed.quota.streams, changed.quota.calls_per_s) == (4, 0.5)
    assert not changed.quota.HasField("sessions")
    assert [tenant.name for tenant in await admin.list_tenants()] == ["admin", "lab"]
    assert (await admin.get_tenant("lab")).tenant == changed
    await admin.delete_tenant("lab")
    assert [tenant.name for tenant in await admin.list_tenants()] == ["admin"]
    assert (await refusal(admin.get_tenant("lab"))).code == 107017
    taken = await refusal(admin.create_tenant("lab"))
    assert (taken.code, taken.parameter) == (507000, "tenant"), "its name stays its own"


async def test_a_key_opens_until_it_is_revoked(
    farm: Farm, client: AsyncClient, url: str, request: pytest.FixtureRequest
) -> None:
    await client.admin.create_tenant("lab")
    made = await client.admin.create_key("lab", "ci", scopes=["operate", "metrics"])
    assert is_well_formed(made.text)
    assert (made.key.tenant, made.key.principal) == ("lab", "ci")
    assert list(made.key.scopes) == ["metrics", "operate"]
    face = request.node.callspec.params["client"]
    async with farm.client(face, made.text) as theirs:
        assert await theirs.list_devices()
        denied = await refusal(theirs.admin.list_tenants())
        assert isinstance(denied, PermissionDeniedError)
        revoked = await client.admin.revoke_key(made.key.id)
        assert revoked.revoked_at == NOW
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)
    assert [key.id for key in await client.admin.list_keys("lab")] == [made.key.id]
    assert made.text not in repr(await farm.audit())
    assert made.text.encode() not in Path(url.removeprefix("sqlite:///")).read_bytes()


async def test_a_key_expires(farm: Farm, client: AsyncClient) -> None:
    made = await client.admin.create_key("admin", "guest", lifetime_s=60)
    assert made.key.expires_at == NOW + 60
    async with farm.client("grpc", made.text) as theirs:
        await theirs.list_devices()
        farm.clock.now += 60
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)


@pytest.mark.parametrize("ended", ["disabled", "deleted"])
async def test_the_sessions_of_a_tenant_end_with_it(
    farm: Farm, client: AsyncClient, ended: str
) -> None:
    await client.admin.create_tenant("lab")
    key = (await client.admin.create_key("lab", "ci")).text
    async with farm.client("grpc", key) as theirs:
        await theirs.open_session()
        assert (await client.list_devices())[0].sessions == 1
        if ended == "disabled":
            await client.admin.update_tenant("lab", disabled=True)
        else:
            await client.admin.delete_tenant("lab")
        assert (await client.list_devices())[0].sessions == 0
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)


async def test_a_quota_refuses_and_usage_tells_of_it(farm: Farm, client: AsyncClient) -> None:
    await client.admin.create_tenant("lab", quota={"sessions": 1})
    key = (await client.admin.create_key("lab", "ci")).text
    async with farm.client("rest", key) as theirs:
        await theirs.open_session()
        assert isinstance(await refusal(theirs._open_session("ascend910b", None, 0)), QuotaExceeded)
        told = await theirs.get_usage()
        assert told.tenant == "lab"
        assert [use.resource for use in told.uses] == list(Resource)
        sessions = next(use for use in told.uses if use.resource == "sessions")
        assert (sessions.limit, sessions.use, sessions.refusals) == (1, 1, 1)
        assert not told.uses[0].HasField("limit")
        assert list((await client.admin.get_tenant("lab")).uses) == list(told.uses)
        activity = await client.admin.get_activity()
        assert activity.devices[0].sessions == 1
        lab = next(one for one in activity.tenants if one.tenant == "lab")
        assert lab.calls == 3
        assert next(use.use for use in lab.uses if use.resource == "sessions") == 1
        await client.admin.update_tenant("lab", quota={"sessions": None})
        await theirs.open_session()


async def test_usage_is_the_ledgers_and_what_it_lacks_yet(farm: Farm, client: AsyncClient) -> None:
    book = farm.service.accounts.book
    today = datetime.fromtimestamp(NOW, UTC).date().isoformat()
    book._now = farm.clock
    book.add("lab", "ascend910b", 0.5)
    await book.save(farm.store.usage)
    book.add("lab", "ascend910b", 0.25)
    book.add("mill", "reference", 1.0)
    rows = await client.admin.list_usage()
    told = [(row.tenant, row.day, row.profile, row.device_s, row.calls) for row in rows]
    assert told == [
        ("lab", today, "ascend910b", 0.75, 2),
        ("mill", today, "reference", 1.0, 1),
    ]
    assert [row.tenant for row in await client.admin.list_usage("mill")] == ["mill"]
    assert not await client.admin.list_usage(first_day="2027-01-01", last_day="2027-01-14")


async def test_certificates_are_known_until_they_are_removed(client: AsyncClient) -> None:
    spiffe = "URI:spiffe://farm/ci"
    await client.admin.create_tenant("lab")
    added = await client.admin.add_certificate(spiffe, tenant="lab", principal="ci")
    assert (added.subject, list(added.scopes)) == (spiffe, ["operate"])
    assert await client.admin.list_certificates("lab") == [added]
    assert not await client.admin.list_certificates("admin")
    await client.admin.remove_certificate(spiffe)
    assert not await client.admin.list_certificates()
    assert (await refusal(client.admin.remove_certificate(spiffe))).code == 107017


async def test_nobody_is_locked_out_unasked(farm: Farm, client: AsyncClient) -> None:
    (own,) = await client.admin.list_keys()
    changes: list[Call] = [
        lambda c: c.admin.revoke_key(own.id),
        lambda c: c.admin.update_tenant("admin", disabled=True),
        lambda c: c.admin.update_tenant("admin", quota={"calls_per_s": 0}),
        lambda c: c.admin.delete_tenant("admin"),
    ]
    for change in changes:
        refused = await refusal(change(client))
        assert (refused.code, refused.parameter) == (507000, "force"), refused
    (still,) = await client.admin.list_keys()
    assert not still.HasField("revoked_at")
    other = await client.admin.create_key("admin", "second", scopes=["admin"])
    await client.admin.revoke_key(own.id)
    async with farm.client("rest", other.text) as second:
        await second.admin.revoke_key(other.key.id, force=True)
        assert isinstance(await refusal(second.admin.list_keys()), AuthenticationError)


async def test_every_call_is_in_the_audit_with_who_and_what(
    farm: Farm, client: AsyncClient, request: pytest.FixtureRequest
) -> None:
    face = request.node.callspec.params["client"]
    before = len(await farm.audit())
    await client.admin.create_tenant("lab", weight=2, quota={"sessions": 1})
    key = await client.admin.create_key("lab", "ci", scopes=["operate", "metrics"])
    await client.admin.list_tenants()
    await refusal(client.admin.get_tenant("mill"))
    await refusal(client.admin.create_tenant("Bad name"))
    await client.admin.list_audit(tenant="lab", limit=3)
    entries = (await farm.audit())[before:]
    assert {(one.tenant, one.principal, one.face) for one in entries} == {
        ("admin", "bootstrap", face)
    }
    assert all(one.request_id for one in entries)
    told = sorted((one.method, one.outcome, one.detail or one.reason) for one in entries)
    missing, wrong = {"grpc": ("NOT_FOUND", "INVALID_ARGUMENT"), "rest": ("404", "400")}[face]
    name = "1 to 63 lower case letters, digits and hyphens"
    assert told == sorted(
        [
            ("CreateTenant", "OK", "tenant=lab weight=2 sessions=1"),
            (
                "CreateKey",
                "OK",
                f"tenant=lab principal=ci scopes=operate,metrics key={key.key.id}",
            ),
            ("ListTenants", "OK", ""),
            ("GetTenant", missing, "tenant: given mill, allowed the name of a tenant"),
            ("CreateTenant", wrong, f"tenant: given Bad name, allowed {name}"),
            ("ListAudit", "OK", "tenant=lab limit=3"),
        ]
    )


async def test_the_audit_is_read_page_by_page(farm: Farm, client: AsyncClient) -> None:
    for number in range(5):
        farm.clock.now += 1
        await client.admin.create_tenant(f"t{number}")
    farm.clock.now += 1
    first = await client.admin.list_audit(since=NOW + 2, until=NOW + 6, limit=3)
    assert [entry.detail for entry in first.entries] == ["tenant=t4", "tenant=t3", "tenant=t2"]
    rest = await client.admin.list_audit(since=NOW + 2, until=NOW + 6, limit=3, cursor=first.cursor)
    assert [entry.detail for entry in rest.entries] == ["tenant=t1"]
    assert not rest.cursor
    nobody = await client.admin.list_audit(tenant="")
    assert {entry.face for entry in nobody.entries} == {"cli"}, "bootstrap alone"
    assert (await refusal(client.admin.list_audit(cursor="!"))).parameter == "cursor"


LONG = "x" * 64
SECRET = new_key()
WRONG: Mapping[str, tuple[Call, str]] = {
    "a name in capitals": (lambda c: c.admin.create_tenant("Lab"), "tenant"),
    "a name that is too long": (lambda c: c.admin.create_tenant(LONG), "tenant"),
    "the name of whoever has no key": (lambda c: c.admin.create_tenant("local"), "tenant"),
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


async def test_what_is_out_of_bounds_is_refused_alike_by_both_faces(farm: Farm) -> None:
    before = await farm.store.directory()
    for what, (call, parameter) in WRONG.items():
        answers: list[tuple[object, ...]] = []
        for face in FACES:
            async with farm.client(face) as client:
                error = await refusal(call(client))
            answers.append((type(error), error.code, error.message, error.parameter))
            assert SECRET not in f"{error.message} {error.given}"
        assert answers[0] == answers[1], what
        assert answers[0][0::3] == (AclrtError, parameter), what
        assert answers[0][1] == 107000, what
    assert await farm.store.directory() == before
    assert SECRET not in repr(await farm.audit())


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
    "ListUsage": lambda c: c.admin.list_usage(),
    "ListAudit": lambda c: c.admin.list_audit(),
    "ListSessions": lambda c: c.admin.list_sessions(),
    "ReleaseSession": lambda c: c.admin.release_session("00000000"),
    "GetActivity": lambda c: c.admin.get_activity(),
}


@pytest.fixture
async def furnished(client: AsyncClient) -> AsyncClient:
    """A client of a farm where every call would find what it needs."""
    await client.open_session()
    await client.admin.create_tenant("lab")
    await client.admin.add_certificate("CN=y", tenant="lab", principal="y")
    return client


async def test_a_call_that_cannot_be_recorded_fails_and_changes_nothing(
    furnished: AsyncClient, farm: Farm, url: str
) -> None:
    before = await farm.store.directory()
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit RENAME TO elsewhere"))
    for name, call in CALLS.items():
        if name in {"RevokeKey", "ReleaseSession", "ListAudit"}:
            continue  # tried below, on what is there; there is no audit to be read
        refused = await refusal(call(furnished))
        assert (refused.code, refused.parameter) == (507901, "store"), name
    (own,) = before.keys.values()
    (session,) = await _list_sessions(farm)
    assert (await refusal(furnished.admin.release_session(session))).code == 507901
    assert await _list_sessions(farm) == [session]
    assert (await refusal(furnished.admin.revoke_key(own.id, force=True))).code == 507901
    assert await farm.store.directory() == before
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE elsewhere RENAME TO audit"))
    await engine.dispose()
    told = {entry.method for entry in await farm.audit() if entry.outcome != "OK"}
    assert told == CALLS.keys() - {"ListAudit"}, "that they were tried is recorded later"


async def _list_sessions(farm: Farm) -> list[str]:
    admin = Principal(tenant="admin", name="test", scopes=frozenset(Scope))
    return [session.id for session in farm.service.list_sessions(admin)]


async def test_a_session_is_seen_and_released_by_its_id(farm: Farm, client: AsyncClient) -> None:
    await client.admin.create_tenant("lab")
    key = (await client.admin.create_key("lab", "ci")).text
    async with farm.client("grpc", key) as theirs:
        session = await theirs.open_session()
        (seen,) = await client.admin.list_sessions()
        assert (seen.tenant, seen.device, seen.working) == ("lab", "ascend910b-0", False)
        assert session.name.startswith(seen.id)
        assert len(seen.id) == 8
        assert [one.id for one in await client.admin.list_sessions("lab")] == [seen.id]
        assert not await client.admin.list_sessions("admin")
        refused = await refusal(client.admin.release_session(session.name))
        assert (refused.code, refused.parameter) == (107000, "id")
        assert session.name not in refused.message
        await client.admin.release_session(seen.id)
        assert not await client.admin.list_sessions()
        assert (await refusal(client.admin.release_session(seen.id))).code == 107017
        assert (await refusal(session.allocate(8))).code == 107017
    told = [(one.method, one.outcome) for one in await farm.audit()]
    assert told.count(("ReleaseSession", "OK")) == 1


def test_every_call_of_administration_is_tried_here() -> None:
    assert CALLS.keys() == {request.__name__ for request in ANSWERS}


async def test_the_first_key_is_made_once_unless_forced(farm: Farm) -> None:
    with pytest.raises(Administered):
        await first_key(farm.store, "admin", force=False, now=NOW)
    async with farm.client("grpc") as client:
        await client.admin.update_tenant("admin", disabled=True, force=True)
    again = await first_key(farm.store, "admin", force=False, now=NOW + 1)
    assert again != farm.key
    live = await _live(farm.store)
    assert len(live) == 1, "the key that was lost opens nothing"
    assert not (await farm.store.tenants.get("admin")).disabled
    third = await first_key(farm.store, "admin", force=True, now=NOW + 2)
    assert await _live(farm.store) != live
    assert third not in repr(await farm.audit())


async def _live(store: Store) -> list[Any]:
    return [key.id for key in await store.keys.of("admin") if key.revoked_at is None]
