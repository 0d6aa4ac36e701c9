"""Drills of a farm: services in processes of their own over one PostgreSQL."""

import asyncio
import shutil
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from benchmarks.service_with_keys import new_store
from opserve_client import (
    AsyncClient,
    AsyncSession,
    Im2colBackward,
    OpserveError,
    ServiceUnreachable,
    SessionLost,
)
from opserve_client.private_service import Addresses
from opserve_server.core.farm import service_id
from opserve_server.core.tenants import Tenant
from server.store.postgresql import Postgresql, postgresql
from server.store.samples import engine_of
from skips import needs_program
from system.drills import Process, own_process, until

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]
PROGRAM = Path(sys.executable).with_name("opserve")
COLUMNS = np.ones((1, 64, 196), np.float32)
CALLS_OF_A_SESSION = 5
HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend opserve
    bind 127.0.0.1:{port}
    default_backend services
backend services
    balance roundrobin
    server a {a}
    server b {b}
"""
NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream services {{ server {a}; server {b}; }}
    server {{
        listen 127.0.0.1:{port} http2;
        location / {{ grpc_pass grpc://services; }}
    }}
}}
"""


@pytest.fixture
async def store() -> AsyncIterator[Postgresql]:
    with postgresql() as server:
        await server.create_tables()
        yield server


def service(
    store: Postgresql, name: str, **settings: str
) -> AbstractAsyncContextManager[tuple[Process, Addresses]]:
    chosen = {"farm_name": name, "farm_lease_s": "2", "shared_memory": "false"} | settings
    return own_process(store_url=store.url("test"), **chosen)


@asynccontextmanager
async def farm(
    store: Postgresql, names: str, **settings: str
) -> AsyncGenerator[dict[str, tuple[Process, AsyncClient, Addresses]]]:
    """Services that list each other, each with a client."""
    async with AsyncExitStack() as stack:
        found: dict[str, tuple[Process, AsyncClient, Addresses]] = {}
        for name in names:
            process, at = await stack.enter_async_context(service(store, name, **settings))
            client = await stack.enter_async_context(AsyncClient(at.grpc))
            found[name] = process, client, at
        for _, client, _ in found.values():
            await until_listed(client, names)
        yield found


async def until_listed(client: AsyncClient, names: str) -> None:
    """Waits until a service lists the devices of these services and of no other."""

    async def are_listed() -> bool:
        return {device.host for device in await client.list_devices()} == set(names)

    await until(are_listed)


async def folded(session: AsyncSession) -> bytes:
    """The result of a call on arrays."""
    call = Im2colBackward(
        grad_output=COLUMNS,
        input_size=[15, 15],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
    return np.asarray((await session.run(call)).out).tobytes()


def is_at(session: AsyncSession, name: str) -> bool:
    return session.name.endswith(service_id(name))


async def epoch_of(store: Postgresql, name: str) -> int:
    engine = engine_of(store.url("test"))
    async with engine.connect() as connection:
        query = f"SELECT epoch FROM services WHERE name = '{name}'"  # noqa: S608
        epoch: int = (await connection.exec_driver_sql(query)).scalar_one()
    await engine.dispose()
    return epoch


async def test_a_killed_service_loses_its_own_sessions_and_calls_on_arrays_go_on(
    store: Postgresql,
) -> None:
    async with farm(store, "ab") as services:
        process, client, _ = services["a"]
        other = await services["b"][1].open_session()
        lost = await client.open_session()
        assert (is_at(lost, "a"), is_at(other, "b")) == (True, True)
        tensor = await lost.upload(COLUMNS, format="ND")
        expected, kept = await folded(lost), other.name
        process.kill()
        await process.wait()
        assert await folded(lost) == expected
        assert is_at(lost, "b")
        with pytest.raises(SessionLost):
            await lost.get_workspace_size(
                Im2colBackward(
                    grad_output=tensor,
                    input_size=[15, 15],
                    kernel_size=[2, 2],
                    dilation=[1, 1],
                    padding=[0, 0],
                    stride=[1, 1],
                )
            )
        assert await folded(other) == expected
        assert other.name == kept
        await until_listed(services["b"][1], "b")


async def test_a_stopped_service_comes_back_with_a_new_epoch_and_its_sessions(
    store: Postgresql,
) -> None:
    async with farm(store, "ab") as services:
        process, client, _ = services["a"]
        session = await client.open_session()
        name, expected, epoch = session.name, await folded(session), await epoch_of(store, "a")
        process.send_signal(signal.SIGSTOP)
        await until_listed(services["b"][1], "b")
        process.send_signal(signal.SIGCONT)
        await until_listed(services["b"][1], "ab")
        assert await epoch_of(store, "a") == epoch + 1
        assert (await folded(session), session.name) == (expected, name)


async def test_a_zombie_changes_nothing_after_its_name_is_taken(store: Postgresql) -> None:
    async with farm(store, "ab") as services:
        zombie, client, _ = services["a"]
        session = await client.open_session()
        expected = await folded(session)
        await session.close()
        zombie.send_signal(signal.SIGSTOP)
        await until_listed(services["b"][1], "b")
        async with service(store, "a"):
            await until_listed(services["b"][1], "ab")
            epoch = await epoch_of(store, "a")
            zombie.send_signal(signal.SIGCONT)
            assert is_at(await client.open_session(), "b")
            assert zombie.stderr is not None
            async for line in zombie.stderr:
                if b"another process has registered as a" in line:
                    break
            session = await client.open_session()
            assert await epoch_of(store, "a") == epoch
            zombie.kill()
            assert await folded(session) == expected, "it is on one of the others"
            await until_listed(services["b"][1], "ab")


async def test_a_killed_service_returns_under_its_name_before_its_lease_ends(
    store: Postgresql,
) -> None:
    async with farm(store, "ab") as services:
        process, _, _ = services["a"]
        epoch = await epoch_of(store, "a")
        process.kill()
        await process.wait()
        async with service(store, "a") as (_, again), AsyncClient(again.grpc) as client:
            assert await epoch_of(store, "a") == epoch + 1
            assert is_at(await client.open_session(), "a")
            await until_listed(services["b"][1], "ab")


async def test_open_sessions_outlive_a_store_that_is_away_and_new_ones_follow_its_return(
    store: Postgresql,
) -> None:
    async with farm(store, "ab") as services:
        _, client, _ = services["a"]
        session = await client.open_session()
        expected = await folded(session)
        await store.run("ALTER DATABASE test ALLOW_CONNECTIONS false")
        await store.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test'"
        )

        async def opens() -> bool:
            try:
                await (await client.open_session()).close()
            except ServiceUnreachable:
                return False
            return True

        async def opens_none() -> bool:
            return not await opens()

        await until(opens_none)
        assert await folded(session) == expected
        await store.run("ALTER DATABASE test ALLOW_CONNECTIONS true")
        await until(opens)
        assert await folded(session) == expected


async def test_the_first_room_of_any_service_goes_to_the_first_request(store: Postgresql) -> None:
    async with farm(store, "abc", device_sessions_limit="1") as services:
        clients = {name: client for name, (_, client, _) in services.items()}
        held = {name: await client.open_session() for name, client in clients.items()}
        for client in clients.values():
            await until_full(client)
        requests = {name: waiting(clients[name]) for name in "ab"}
        first, second = await in_line(store)
        await held["c"].close()
        for name in (first, second):
            got = await requests[name]
            assert is_at(got, "c")
            await got.close()


async def test_two_services_race_for_the_last_room(store: Postgresql) -> None:
    async with farm(store, "abc", device_sessions_limit="1") as services:
        clients = {name: client for name, (_, client, _) in services.items()}
        last = [await client.open_session() for client in clients.values()][-1]
        for client in clients.values():
            await until_full(client)
        races = [waiting(clients[name]) for name in "ab"]
        await in_line(store)
        await last.close()
        done, others = await asyncio.wait(races, return_when=asyncio.FIRST_COMPLETED)
        (won,), (waits,) = done, others
        assert is_at(await won, "c")
        await (await won).close()
        assert is_at(await waits, "c")


async def test_a_waiting_request_keeps_its_place_when_its_service_is_lost(
    store: Postgresql,
) -> None:
    async with farm(store, "ab", device_sessions_limit="1") as services:
        clients = {name: client for name, (_, client, _) in services.items()}
        held = {name: await client.open_session() for name, client in clients.items()}
        for client in clients.values():
            await until_full(client)
        requests = {name: waiting(clients[name]) for name in "ab"}
        lost, kept = await in_line(store)

        async def is_second() -> bool:
            return [one.position for one in await clients[kept].list_waiting()] == [2]

        await until(is_second)
        process = services[lost][0]
        process.kill()
        await process.wait()

        async def has_come() -> bool:
            return len(await clients[kept].list_waiting()) == 2

        await until(has_come)
        await held[kept].close()
        got = await requests[lost]
        assert is_at(got, kept)
        assert not requests[kept].done()
        await got.close()
        assert is_at(await requests[kept], kept)


def waiting(client: AsyncClient) -> "asyncio.Task[AsyncSession]":
    async def opened() -> AsyncSession:
        return await client.open_session(wait_s=60)

    return asyncio.create_task(opened())


async def until_full(client: AsyncClient) -> None:
    """Waits until a service lists no device without a session."""

    async def is_full() -> bool:
        return all(device.sessions for device in await client.list_devices())

    await until(is_full)


async def in_line(store: Postgresql) -> list[str]:
    """The services of two requests that wait, the first in the line first."""
    engine = engine_of(store.url("test"))
    names: list[str] = []

    async def are_there() -> bool:
        async with engine.connect() as connection:
            query = "SELECT service FROM waiting ORDER BY rank"
            names[:] = (await connection.exec_driver_sql(query)).scalars()
        return len(names) == 2

    await until(are_there)
    await engine.dispose()
    return names


async def test_a_suite_over_four_services_with_one_killed_ends_complete(
    store: Postgresql, tmp_path: Path
) -> None:
    async with farm(store, "abcd", device_sessions_limit="2", farm_lease_s="10") as services:
        process, _, at = services["a"]
        suite = await asyncio.create_subprocess_exec(
            *(PROGRAM, "conform", "run", "--suite", "smoke"),
            *("--match", "*ascend910b*", "--jobs", "4", "--folder", f"{tmp_path}"),
            *("--target", f"opserve:{at.grpc}/ascend910b"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

        async def are_at_work() -> bool:
            devices = await services["d"][1].list_devices()
            sessions = {device.host: device.sessions for device in devices}
            return sessions.get("a", 0) > 0 and sum(sessions.values()) >= 3

        await until(are_at_work)
        process.kill()
        assert suite.returncode is None, "the suite was at work"
        output, _ = await suite.communicate()
        assert suite.returncode == 0, output.decode()


class Teams:
    """Tenants that open sessions and call in them, without an end."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self.keys = keys
        self.calls = dict.fromkeys(keys, 0)
        self.results = set[bytes]()
        self.ended = asyncio.Event()

    async def work(self, tenant: str, address: str) -> None:
        async with AsyncClient(address, api_key=self.keys[tenant]) as client:
            while not self.ended.is_set():
                async with client.open_session() as session:
                    for _ in range(CALLS_OF_A_SESSION):
                        self.results.add(await folded(session))
                        self.calls[tenant] += 1

    async def go_on(self) -> None:
        """Waits until every tenant has made further calls, in another session, too."""
        before = self.calls.copy()

        async def have_called() -> bool:
            return all(self.calls[one] > before[one] + CALLS_OF_A_SESSION for one in self.calls)

        await until(have_called)


async def test_services_are_replaced_one_by_one_without_a_failed_call(store: Postgresql) -> None:
    teams = Teams(await new_store(store.url("test"), [Tenant(name=f"t{at}") for at in range(8)]))
    async with AsyncExitStack() as stack:

        async def started(name: str) -> tuple[Process, Addresses]:
            return await stack.enter_async_context(service(store, name, no_keys="false"))

        async def both_are_listed_by(name: str) -> None:
            async with AsyncClient(services[name][1].grpc, api_key=teams.keys["t0"]) as client:
                await until_listed(client, "ab")

        services = {name: await started(name) for name in "ab"}
        for name in services:
            await both_are_listed_by(name)  # a client knows the others by its first session
        async with asyncio.TaskGroup() as working:
            for tenant, name in zip(teams.keys, "abababab", strict=True):
                working.create_task(teams.work(tenant, services[name][1].grpc))
            for name, other in ("ab", "ba"):
                await teams.go_on()
                process, _ = services[name]
                process.terminate()
                await process.wait()
                await teams.go_on()
                services[name] = await started(name)
                await both_are_listed_by(other)
            await teams.go_on()
            teams.ended.set()
    assert len(teams.results) == 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def program(*command: str) -> AsyncGenerator[None]:
    process = await asyncio.create_subprocess_exec(*command)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def open_behind(address: str) -> None:
    """Opens a session on each of two services with room for one, and no third."""
    async with AsyncClient(address) as client:

        async def answers() -> bool:
            try:
                return bool(await client.list_devices())
            except OpserveError:
                return False

        await until(answers)
        opened: Sequence[AsyncSession] = [await client.open_session() for _ in range(2)]
        assert sorted((is_at(one, "a"), is_at(one, "b")) for one in opened) == [
            (False, True),
            (True, False),
        ]
        assert await folded(opened[0]) == await folded(opened[1])
        for session in opened:
            await session.close()


@needs_program("haproxy", there=shutil.which("haproxy") is not None, package="haproxy")
async def test_behind_haproxy_sessions_need_no_stickiness(
    store: Postgresql, tmp_path: Path
) -> None:
    async with farm(store, "ab", device_sessions_limit="1") as services:
        for api in ("grpc", "rest"):
            a, b = (getattr(services[name][2], api).rpartition("/")[2] for name in "ab")
            port, config = free_port(), tmp_path / f"{api}.cfg"
            config.write_text(HAPROXY.format(port=port, a=a, b=b))
            async with program("haproxy", "-db", "-f", f"{config}"):
                scheme = "grpc" if api == "grpc" else "http"
                await open_behind(f"{scheme}://127.0.0.1:{port}")


@needs_program("nginx", there=shutil.which("nginx") is not None, package="nginx-light")
async def test_behind_nginx_sessions_need_no_stickiness(store: Postgresql, tmp_path: Path) -> None:
    async with farm(store, "ab", device_sessions_limit="1") as services:
        a, b = (services[name][2].grpc for name in "ab")
        port, config = free_port(), tmp_path / "nginx.conf"
        config.write_text(NGINX.format(port=port, a=a, b=b, folder=tmp_path))
        async with program("nginx", "-p", f"{tmp_path}", "-c", f"{config}"):
            await open_behind(f"grpc://127.0.0.1:{port}")
