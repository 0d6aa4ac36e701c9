"""Over gRPC and Connect a client waits for a device, gets its position and disconnects, alike."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opserve.v1.session_service_pb2 import Waiting
from opserve_client import AsyncClient, Device, OpserveError
from server.deployment import APIS, Deployment, open_deployment
from server.store.migrated import migrated_file

pytestmark = pytest.mark.parametrize("api", APIS)


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncGenerator[Deployment]:
    async with open_deployment(migrated_file(tmp_path)) as deployment:
        yield deployment


@pytest.fixture
async def lab(deployment: Deployment, api: str) -> AsyncGenerator[AsyncClient]:
    """A client of a tenant that may request priority 2."""
    async with deployment.client(api) as admin:
        await admin.admin.create_tenant("lab", priority_limit=2)
        key = (await admin.admin.create_key("lab", "ci")).text
    async with deployment.client(api, key) as client:
        yield client


async def until_it_waits(client: AsyncClient) -> Waiting:
    async with asyncio.timeout(300):
        while not (waiting := await client.list_waiting()):  # noqa: ASYNC110  # over a wire
            await asyncio.sleep(0)
        return waiting[0]


async def test_a_client_waits_until_the_device_is_its_alone(lab: AsyncClient) -> None:
    reported = asyncio.Queue[Waiting]()
    first = await lab.open_session()
    waiting = asyncio.ensure_future(
        _opened(lab, reported)  # in many calls
    )
    listed = await until_it_waits(lab)
    assert (listed.tenant, listed.position, listed.exclusive) == ("lab", 1, True)
    assert listed.priority == 2
    assert "1 sessions, where none may be" in listed.waits_for
    assert (await asyncio.wait_for(reported.get(), 300)).request_id == listed.request_id
    await first.close()
    async with asyncio.timeout(300):
        assert (await waiting).exclusive
    assert not await lab.list_waiting()


async def _opened(client: AsyncClient, reported: asyncio.Queue[Waiting]) -> Device:
    opening = client.open_session(
        wait_s=60, priority=2, exclusive=True, exclusive_s=30, on_position=reported.put_nowait
    )
    async with opening:
        (device,) = await client.list_devices()
        return device


async def test_a_client_that_disconnects_is_passed_over_at_once(lab: AsyncClient) -> None:
    first = await lab.open_session(exclusive=True)
    gone = asyncio.ensure_future(_waits(lab))
    await until_it_waits(lab)
    gone.cancel()
    await asyncio.wait([gone])
    behind = asyncio.ensure_future(_waits(lab))
    async with asyncio.timeout(300):
        while [info.position for info in await lab.list_waiting()][-1:] != [1]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await first.close()
        await behind


async def _waits(client: AsyncClient) -> None:
    async with client.open_session(wait_s=60):
        pass


@pytest.mark.parametrize(
    ("asked", "code", "allowed"),
    [
        ({"tags": ["quiet"]}, 107001, "ascend910b-0: none"),
        ({"priority": 3}, 107000, "0 to 2, the limit of the tenant"),
        ({"exclusive_s": 1e9, "exclusive": True}, 107000, "0 (the default) to 600.0"),
    ],
)
async def test_a_request_that_can_never_be_met_is_refused_at_once(
    lab: AsyncClient, asked: dict[str, object], code: int, allowed: str
) -> None:
    with pytest.raises(OpserveError) as refusal:
        await lab.open_session(wait_s=60, **asked)  # type: ignore[arg-type]  # of each case
    assert (refusal.value.code, refusal.value.allowed) == (code, allowed)
