"""Over gRPC and Connect, blocking and async: watches of the service, and series."""

import socket
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from urllib.parse import urlsplit

import pytest

from opserve_client import AclrtError, AsyncClient, Client, ServiceUnreachable, WatchedState
from opserve_client.private_service import Addresses, private_service
from opserve_client.wire.json_messages import Json

pytestmark = pytest.mark.system
APIS = ["grpc", "rest"]
WATCHES = 4


@pytest.fixture(scope="module")
def brief() -> Generator[Addresses]:
    """A service that ends watches after a second."""
    with private_service(devices='["ascend910b"]', watch_limit_s="1") as addresses:
        yield addresses


@pytest.fixture(scope="module")
def strict() -> Generator[Addresses]:
    """A service with few watches, for one test: it notices closed ones a little later."""
    with private_service(devices='["ascend910b"]', tenant_watches_limit=str(WATCHES)) as addresses:
        yield addresses


def of_a_device(state: WatchedState) -> Mapping[str, Json]:
    (device,) = state.devices.values()
    return device


@pytest.mark.parametrize("api", APIS)
def test_a_watch_has_the_state_and_its_changes(brief: Addresses, api: str) -> None:
    with Client(getattr(brief, api)) as client, closing(client.watch()) as states:
        first = next(states)
        assert set(first.devices) == {device.name for device in client.list_devices()}
        assert of_a_device(first)["ready"] is True
        assert (first.sessions, first.waiting) == ({}, {})
        with client.open_session() as session:
            opened = next(state for state in states if state.sessions)
            (name,) = opened.sessions
            assert session.name.startswith(name)
            assert of_a_device(opened)["your_sessions"] == 1
        assert first.sessions == {}, "a state that was read stays as it is"
        ended = next(state for state in states if not state.sessions)
        assert of_a_device(ended)["your_sessions"] == 0


@pytest.mark.parametrize("api", APIS)
async def test_a_watch_goes_on_after_the_service_ended_it(brief: Addresses, api: str) -> None:
    async with AsyncClient(getattr(brief, api)) as client, aclosing(client.watch()) as states:
        versions = [(await anext(states)).service["state"]["version"] for _ in range(3)]
        assert versions == 3 * [await client.get_version()]


@pytest.mark.parametrize("api", APIS)
async def test_a_watch_too_many_is_rejected_until_one_ends(strict: Addresses, api: str) -> None:
    async with AsyncClient(getattr(strict, api)) as client:
        async with AsyncExitStack() as stack:
            with pytest.raises(AclrtError) as caught:
                await open_watches(client, stack, WATCHES + 1)
        assert (caught.value.code, caught.value.parameter) == (207012, "watches")
        while not await has_capacity(client):
            pass


async def open_watches(client: AsyncClient, stack: AsyncExitStack, count: int) -> None:
    """Opens watches, and reads the first state of each."""
    for _ in range(count):
        await anext(await stack.enter_async_context(aclosing(client.watch())))


async def has_capacity(client: AsyncClient) -> bool:
    """Whether the service accepts one more watch."""
    try:
        async with aclosing(client.watch()) as states:
            await anext(states)
    except AclrtError:
        return False
    return True


async def test_watches_that_nobody_reads_end_at_their_time() -> None:
    limits = {"tenant_watches_limit": str(WATCHES), "watch_limit_s": "1"}
    with private_service(devices='["ascend910b"]', **limits) as addresses, ExitStack() as stack:
        at = urlsplit(addresses.rest)
        for _ in range(WATCHES):
            unread = stack.enter_context(socket.create_connection((at.hostname, at.port)))
            unread.sendall(f"GET /v1/watch HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
            unread.recv(1)
        async with AsyncClient(addresses.rest) as client:
            while not await has_capacity(client):
                pass


def test_a_watch_ends_with_its_service() -> None:
    with private_service(devices='["ascend910"]') as addresses:
        clients = [Client(getattr(addresses, api)) for api in APIS]
        watches = [client.watch() for client in clients]
        for states in watches:
            assert of_a_device(next(states))["profile"] == "ascend910"
    for client, states in zip(clients, watches, strict=True):
        with client, closing(states), pytest.raises((ServiceUnreachable, AclrtError)):
            for _ in states:
                pass


@pytest.mark.parametrize("api", APIS)
async def test_series_are_the_latest_points_by_device(brief: Addresses, api: str) -> None:
    async with AsyncClient(getattr(brief, api)) as client:
        (device,) = await client.list_devices()
        every = await client.get_series()
        two = await client.get_series("device_sessions", "device_busy_share", last_s=1)
        with pytest.raises(AclrtError) as caught:
            await client.get_series("none")
    assert set(two.points) == {"device_sessions", "device_busy_share"} < set(every.points)
    assert [len(points) for points in two.points["device_sessions"].values()] == [1]
    assert set(two.points["device_sessions"]) == {device.name}
    assert two.step_s == 1.0
    assert (caught.value.code, caught.value.parameter) == (100000, "name")
