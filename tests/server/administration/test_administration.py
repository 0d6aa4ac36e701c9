"""Rights of an administrator over both APIs: changes apply at once, and each is recorded."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from client.samples import convolution
from opserve_client import AsyncClient, AuthenticationError, SessionLost
from opserve_client.errors import PermissionDeniedError, QuotaExceeded
from opserve_server.bootstrap import Administered, first_key
from opserve_server.core.keys import is_well_formed
from opserve_server.core.tenants import Resource
from opserve_server.store.store import Store
from opserve_server.store.tables import METADATA
from server.deployment import APIS, NOW, Deployment, refusal
from server.store.samples import engine_of
from server.token_issuer import AUDIENCE, ISSUER, REPOSITORY, token

Call = Callable[[AsyncClient], Awaitable[object]]


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
    assert await admin.list_deleted_tenants() == ["lab"]
    assert (await refusal(admin.get_tenant("lab"))).code == 107017
    taken = await refusal(admin.create_tenant("lab"))
    assert (taken.code, taken.parameter) == (107000, "tenant"), "its name stays its own"


async def test_a_key_opens_until_it_is_revoked(
    deployment: Deployment, client: AsyncClient, url: str, api: str
) -> None:
    await client.admin.create_tenant("lab")
    made = await client.admin.create_key("lab", "ci", scopes=["operate", "metrics"])
    assert is_well_formed(made.text)
    assert (made.key.tenant, made.key.principal) == ("lab", "ci")
    assert list(made.key.scopes) == ["metrics", "operate"]
    async with deployment.client(api, made.text) as theirs:
        assert await theirs.list_devices()
        denied = await refusal(theirs.admin.list_tenants())
        assert isinstance(denied, PermissionDeniedError)
        revoked = await client.admin.revoke_key(made.key.id)
        assert revoked.revoked_at == NOW
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)
    assert [key.id for key in await client.admin.list_keys("lab")] == [made.key.id]
    assert made.text not in repr(await deployment.audit())
    assert made.text not in await everything_in(url)


async def everything_in(url: str) -> str:
    """All rows of a store, bytes as the characters that they are."""
    engine = engine_of(url)
    async with engine.connect() as connection:
        rows = [
            (await connection.execute(table.select())).all() for table in METADATA.sorted_tables
        ]
    await engine.dispose()
    return repr(rows)


async def test_a_key_expires(deployment: Deployment, client: AsyncClient) -> None:
    made = await client.admin.create_key("admin", "guest", lifetime_s=60)
    assert made.key.expires_at == NOW + 60
    async with deployment.client("grpc", made.text) as theirs:
        await theirs.list_devices()
        deployment.clock.now += 60
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)


@pytest.mark.parametrize("ended", ["disabled", "deleted"])
async def test_the_sessions_of_a_tenant_end_with_it(
    deployment: Deployment, client: AsyncClient, ended: str
) -> None:
    await client.admin.create_tenant("lab")
    key = (await client.admin.create_key("lab", "ci")).text
    async with deployment.client("grpc", key) as theirs:
        await theirs.open_session()
        assert (await client.list_devices())[0].sessions == 1
        if ended == "disabled":
            await client.admin.update_tenant("lab", disabled=True)
        else:
            await client.admin.delete_tenant("lab")
        assert (await client.list_devices())[0].sessions == 0
        assert isinstance(await refusal(theirs.list_devices()), AuthenticationError)


async def test_a_quota_refuses_and_usage_reports_it(
    deployment: Deployment, client: AsyncClient
) -> None:
    await client.admin.create_tenant("lab", quota={"sessions": 1})
    key = (await client.admin.create_key("lab", "ci")).text
    async with deployment.client("rest", key) as theirs:
        await theirs.open_session()
        assert isinstance(await refusal(theirs.open_session()), QuotaExceeded)
        usage = await theirs.get_usage()
        assert usage.tenant == "lab"
        assert [use.resource for use in usage.uses] == list(Resource)
        sessions = next(use for use in usage.uses if use.resource == "sessions")
        assert (sessions.limit, sessions.use, sessions.refusals) == (1, 1, 1)
        assert not usage.uses[0].HasField("limit")
        assert list((await client.admin.get_tenant("lab")).uses) == list(usage.uses)
        activity = await client.admin.get_activity()
        assert activity.devices[0].sessions == 1
        lab = next(one for one in activity.tenants if one.tenant == "lab")
        assert lab.calls == 3
        assert next(use.use for use in lab.uses if use.resource == "sessions") == 1
        await client.admin.update_tenant("lab", quota={"sessions": None})
        await theirs.open_session()


async def test_usage_is_the_sum_of_the_ledger_and_unwritten_use(
    deployment: Deployment, client: AsyncClient
) -> None:
    await client.admin.create_tenant("mill")
    book = deployment.service.accounts.book
    today = datetime.fromtimestamp(NOW, UTC).date().isoformat()
    book._now = deployment.clock
    book.add("lab", "ascend910b", 0.5)
    await book.save(deployment.store.usage)
    book.add("lab", "ascend910b", 0.25)
    book.add("mill", "reference", 1.0)
    rows = await client.admin.list_usage()
    days = [(row.tenant, row.day, row.profile, row.device_s, row.calls) for row in rows]
    assert days == [
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


async def test_an_identity_opens_both_apis_until_it_is_removed(
    deployment: Deployment, client: AsyncClient
) -> None:
    await client.admin.create_tenant("lab")
    claims = {"repository": REPOSITORY, "ref": "refs/heads/main"}
    added = await client.admin.add_identity(
        ISSUER, audience=AUDIENCE, claims=claims, tenant="lab", principal="ci"
    )
    assert list(added.claims) == ["ref=refs/heads/main", f"repository={REPOSITORY}"]
    assert (added.tenant, added.principal, added.created_at) == ("lab", "ci", NOW)
    assert await client.admin.list_identities("lab") == [added]
    assert not await client.admin.list_identities("admin")
    assert await client.admin.list_issuers() == [ISSUER]
    given = token(ISSUER, now=NOW)
    for api in APIS:
        async with deployment.client(api, given) as job:
            assert await job.list_devices()
            assert isinstance(await refusal(job.admin.list_tenants()), PermissionDeniedError)
    again = await refusal(
        client.admin.add_identity(
            ISSUER, audience=AUDIENCE, claims=claims, tenant="admin", principal="x"
        )
    )
    assert (again.code, again.parameter) == (107000, "identity")
    await client.admin.remove_identity(added.id)
    assert not await client.admin.list_identities()
    answers: set[str] = set()
    for api in APIS:
        async with deployment.client(api, given) as job:
            error = await refusal(job.list_devices())
            assert isinstance(error, AuthenticationError)
            answers.add(error.message)
    (said,) = answers
    assert "opserve identity add" in said
    assert given not in repr(await deployment.audit())
    assert (await refusal(client.admin.remove_identity(added.id))).code == 107017


async def test_a_service_whose_only_credential_is_an_identity_requires_one(
    client: AsyncClient, deployment: Deployment
) -> None:
    await client.admin.add_identity(
        ISSUER, audience=AUDIENCE, claims={"sub": "x"}, tenant="admin", principal="ci"
    )
    directory = await deployment.store.directory()
    assert not replace(directory, keys={}).keyless
    (own,) = await client.admin.list_keys()
    assert (await refusal(client.admin.revoke_key(own.id))).parameter == "force"


async def test_locking_out_the_last_administrator_requires_force(
    deployment: Deployment, client: AsyncClient
) -> None:
    (own,) = await client.admin.list_keys()
    changes: list[Call] = [
        lambda c: c.admin.revoke_key(own.id),
        lambda c: c.admin.update_tenant("admin", disabled=True),
        lambda c: c.admin.update_tenant("admin", quota={"calls_per_s": 0}),
        lambda c: c.admin.delete_tenant("admin"),
    ]
    for change in changes:
        refused = await refusal(change(client))
        assert (refused.code, refused.parameter) == (107000, "force"), refused
    (still,) = await client.admin.list_keys()
    assert not still.HasField("revoked_at")
    other = await client.admin.create_key("admin", "second", scopes=["admin"])
    await client.admin.revoke_key(own.id)
    async with deployment.client("rest", other.text) as second:
        await second.admin.revoke_key(other.key.id, force=True)
        assert isinstance(await refusal(second.admin.list_keys()), AuthenticationError)


async def test_a_filter_by_a_tenant_that_never_was_is_not_an_empty_list(
    client: AsyncClient,
) -> None:
    await client.admin.create_tenant("vision")
    await client.admin.create_tenant("gone")
    await client.admin.delete_tenant("gone")
    lists: list[Callable[[str], Awaitable[object]]] = [
        client.admin.list_keys,
        client.admin.list_certificates,
        client.admin.list_identities,
        client.admin.list_usage,
        client.admin.list_sessions,
        lambda tenant: client.admin.list_audit(tenant=tenant),
    ]
    for listed in lists:
        for known in ("", "vision", "gone", "local"):
            await listed(known)
        unknown = await refusal(listed("vison"))
        assert (unknown.code, unknown.parameter) == (107017, "tenant")
        assert unknown.message == (
            "There is no tenant 'vison'; use admin, vision; did you mean vision?"
        )


async def test_a_filter_by_an_outcome_that_is_none_is_rejected_with_the_likely_one(
    client: AsyncClient,
) -> None:
    for outcome in ("OK", "401", "UNAUTHENTICATED", "unauthenticated"):
        await client.admin.list_audit(outcome=outcome)
    refused = await refusal(client.admin.list_audit(outcome="UNAUTHENTICATE"))
    assert (refused.code, refused.parameter) == (107000, "outcome")
    assert refused.message.endswith("did you mean UNAUTHENTICATED?")


async def test_a_session_is_seen_and_released_by_its_id(
    deployment: Deployment, client: AsyncClient
) -> None:
    await client.admin.create_tenant("lab")
    key = (await client.admin.create_key("lab", "ci")).text
    async with deployment.client("grpc", key) as theirs:
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
    calls = [(one.method, one.outcome) for one in await deployment.audit()]
    assert calls.count(("ReleaseSession", "OK")) == 1


@pytest.mark.parametrize("ends", ["released", "closed"])
async def test_a_session_that_was_ended_on_purpose_is_not_opened_again(
    client: AsyncClient, ends: str
) -> None:
    session = await client.open_session("ascend910b")
    if ends == "released":
        (seen,) = await client.admin.list_sessions()
        await client.admin.release_session(seen.id)
    else:
        await (await client.resume_session(session.name)).close()
    for _ in range(2):
        with pytest.raises(SessionLost, match=f"The session has ended: it was {ends}\\.") as lost:
            await session.run(convolution())
        assert lost.value.ended == f"it was {ends}"
    assert not await client.admin.list_sessions()
    await session.close()


async def test_the_first_key_is_made_once_unless_forced(deployment: Deployment) -> None:
    with pytest.raises(Administered):
        await first_key(deployment.store, "admin", force=False, now=NOW)
    async with deployment.client("grpc") as client:
        await client.admin.update_tenant("admin", disabled=True, force=True)
    again = await first_key(deployment.store, "admin", force=False, now=NOW + 1)
    assert again != deployment.key
    live = await _live(deployment.store)
    assert len(live) == 1, "the key that was lost opens nothing"
    assert not (await deployment.store.tenants.get("admin")).disabled
    third = await first_key(deployment.store, "admin", force=True, now=NOW + 2)
    assert await _live(deployment.store) != live
    await first_key(deployment.store, "lab", force=True, now=NOW + 3)
    assert not await _live(deployment.store), "a forced key of another tenant revokes it, too"
    await first_key(deployment.store, "admin", force=True, now=NOW + 4)
    assert not [key for key in await deployment.store.keys.of("lab") if key.revoked_at is None]
    assert third not in repr(await deployment.audit())


async def _live(store: Store) -> list[Any]:
    return [key.id for key in await store.keys.of("admin") if key.revoked_at is None]
