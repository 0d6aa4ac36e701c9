"""By each API the call rate of a tenant stops no cleanup, and a short wait is no error."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from opserve.v1.session_service_pb2 import CloseSessionRequest, CloseSessionResponse
from opserve_client import AsyncClient, QuotaExceeded
from opserve_client.wire.methods import CLOSE_SESSION
from opserve_server.core import errors
from opserve_server.core.accounts import Account
from opserve_server.core.principal import Scope
from server import guards
from server.deployment import APIS, Deployment, open_deployment, refusal
from server.store.migrated import migrated_file

ADMIN = guards.principal("admin", Scope.ADMIN)
pytestmark = pytest.mark.parametrize("api", APIS)


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncGenerator[Deployment]:
    async with open_deployment(migrated_file(tmp_path)) as deployment:
        yield deployment


async def key_of(deployment: Deployment, tenant: str) -> str:
    async with deployment.client("grpc") as admin:
        await admin.admin.create_tenant(tenant)
        return (await admin.admin.create_key(tenant, "ci")).text


async def set_rate(deployment: Deployment, calls_per_s: float | None) -> Account:
    async with deployment.client("grpc") as admin:
        await admin.admin.update_tenant("lab", quota={"calls_per_s": calls_per_s})
    return deployment.service.accounts.of("lab")


async def close(client: AsyncClient, session: str) -> CloseSessionResponse:
    return await client._connection.call(CLOSE_SESSION, CloseSessionRequest(session=session))


async def test_a_tenant_above_its_call_rate_closes_its_sessions(
    deployment: Deployment, api: str
) -> None:
    async with deployment.client(api, await key_of(deployment, "lab")) as lab:
        sessions = [await lab.open_session() for _ in range(3)]
        account = await set_rate(deployment, 0)
        calls = account.calls
        assert isinstance(await refusal(lab.list_devices()), QuotaExceeded)
        for session in sessions:
            await session.close()
        assert not deployment.service.list_sessions(ADMIN)
        assert account.calls == calls + 4, "each of them is in the tenant's load"


async def test_closing_no_session_of_the_caller_counts_as_a_call(
    deployment: Deployment, api: str
) -> None:
    async with (
        deployment.client(api, await key_of(deployment, "mill")) as mill,
        deployment.client(api, await key_of(deployment, "lab")) as lab,
        mill.open_session() as foreign,
        lab.open_session() as closed,
    ):
        await closed.close()
        names = (foreign.name, closed.name, "5e55" * 8)
        account = await set_rate(deployment, None)
        calls = account.calls
        for name in names:
            assert (await refusal(close(lab, name))).code == 107017
        assert account.calls == calls + 3
        await set_rate(deployment, 0)
        for name in names:
            assert isinstance(await refusal(close(lab, name)), QuotaExceeded)
        await set_rate(deployment, None)


async def test_a_short_wait_for_the_call_rate_is_no_error(deployment: Deployment, api: str) -> None:
    pauses: list[float] = []

    async def pause(pause_s: float) -> None:
        """Waits until an administrator lifts the limit, whatever the time is."""
        pauses.append(pause_s)
        await set_rate(deployment, None)

    key = await key_of(deployment, "lab")
    async with deployment.client(api, key, sleep=pause) as lab:
        account = await set_rate(deployment, 1.0)
        async with asyncio.timeout(300):
            while not pauses:
                with suppress(errors.QuotaExceeded):
                    account.admit_call()  # so that the next call comes too early
                assert await lab.list_devices()
    assert 0 < pauses[0] <= 1.0
