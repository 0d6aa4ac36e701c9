"""A client that reconnects within the lease resumes its session."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest

from opserve_client import AclrtError, AsyncClient, Client
from opserve_client.private_service import Addresses
from system.drills import tell, until

pytestmark = pytest.mark.system
SIZE = 200_000
LEASE_S = 1.0
LEAVING_CLIENT = """
import os, sys
import numpy as np
from opserve_client import Client
session = Client(sys.argv[1]).open_session("ascend910b", lease_s=float(sys.argv[2]))
session.create_event()
session.create_stream()
session.allocate(1).free()
buffer = session.allocate(int(sys.argv[3]))
buffer.write(bytes(range(100)) * (buffer.size_bytes // 100))
print(session.name, buffer.handle, flush=True)
os.kill(os.getpid(), 9)
"""


def left_behind(address: str, lease_s: float) -> tuple[str, int]:
    """The session of a client that was killed, and a buffer in it."""
    left = subprocess.run(
        [sys.executable, "-c", LEAVING_CLIENT, address, str(lease_s), str(SIZE)],
        stdout=subprocess.PIPE,
        check=False,
        timeout=300,
    )
    name, handle = left.stdout.decode().split()
    return name, int(handle)


@pytest.mark.parametrize(("before", "behind"), [("grpc", "rest"), ("rest", "grpc")])
async def test_a_session_can_be_resumed_after_its_client_was_killed(
    service: Addresses, before: str, behind: str
) -> None:
    name, handle = await asyncio.to_thread(left_behind, getattr(service, before), 30.0)
    async with (
        AsyncClient(getattr(service, behind)) as client,
        client.resume_session(name) as session,
    ):
        assert (session.name, session.device.profile, session.lease_s) == (name, "ascend910b", 30.0)
        last = session.last_handles
        assert (last.buffer, last.executor, last.stream, last.event) == (handle, 0, 1, 1)
        found = await session.buffer(handle, size_bytes=SIZE).read()
        assert found == bytes(range(100)) * (SIZE // 100)
        assert (await session.allocate(8)).handle == handle + 1
        assert (await session.create_stream()).handle == 2
    async with AsyncClient(service.grpc) as client:
        with pytest.raises(AclrtError, match="107017"):
            await client.resume_session(name)


def test_the_blocking_client_resumes_and_keeps_the_lease(service: Addresses) -> None:
    name, handle = left_behind(service.grpc, LEASE_S * 5)
    with Client(service.rest) as client, client.resume_session(name) as session:
        mapped = np.frombuffer(session.buffer(handle, size_bytes=SIZE).read(), np.uint8)
        assert mapped.sum() == sum(range(100)) * (SIZE // 100)


async def test_a_killed_clients_session_ends_with_its_lease_and_no_other_resumes_it(
    service: Addresses,
) -> None:
    async with AsyncClient(service.grpc) as client:
        before = {device.name: device.sessions for device in await client.list_devices()}
        name, _ = await asyncio.to_thread(left_behind, service.grpc, LEASE_S)

        async def gone() -> bool:
            now = {device.name: device.sessions for device in await client.list_devices()}
            return now == before

        tell(f"killed client with a lease of {LEASE_S} s: session over after", await until(gone))
        with pytest.raises(AclrtError, match="107017"):
            await client.resume_session(name)
