"""Clients that die, vanish or dawdle: their resources are released, and others continue."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from opserve.v1.command_service_pb2 import Command
from opserve.v1.event_service_pb2 import RecordEventRequest
from opserve_client import AclrtError, AsyncClient
from opserve_client.private_service import Addresses
from system.drills import EXACT, front_memory_mib, long_work, own_process, tell, until

pytestmark = [pytest.mark.system, pytest.mark.slow]
LEASE_S = 1.0
MIB = 2**20
MEMORY_BYTES = 256 * MIB
DOWNLOAD_BYTES = 64 * MIB
SILENCE_S = 3.0
BUFFERED_MIB = 8
RECORDS, BATCHES = 1000, 200
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04" + b"\0" * 5

UPLOADING = """
import sys
from opserve_client import Client
session = Client(sys.argv[1]).open_session("ascend910b", lease_s=float(sys.argv[2]))
buffer = session.allocate(128 * 2**20)
print("under way", flush=True)
while True:
    buffer.write(bytes(128 * 2**20))
"""
QUEUEING = """
import asyncio, sys
from opserve_client import AsyncClient
from system.drills import long_work

async def main():
    session = await AsyncClient(sys.argv[1]).open_session("ascend910b", lease_s=float(sys.argv[2]))
    work = await long_work(session)
    await work.queue_at_once(session, 1000)
    print("under way", flush=True)
    await session.default_stream.synchronize()

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [UPLOADING, QUEUEING], ids=["mid-upload", "mid-queue"])
@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_resources_of_a_killed_client_are_released_with_its_lease(
    program: str, api: str, request: pytest.FixtureRequest
) -> None:
    settings = {"device_memory_bytes": str(MEMORY_BYTES), "shared_memory": "false"}
    async with own_process(**settings) as (_, addresses), AsyncClient(addresses.grpc) as client:
        address: str = getattr(addresses, api)
        with subprocess.Popen(
            [sys.executable, "-c", program, address, str(LEASE_S)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},  # its work is of the drills
        ) as doomed:
            assert doomed.stdout is not None
            assert await asyncio.to_thread(doomed.stdout.readline) == b"under way\n"
            doomed.kill()

        async def returned() -> bool:
            (device,) = await client.list_devices()
            return (device.sessions, device.free_memory_bytes) == (0, MEMORY_BYTES)

        took_s = await until(returned)
        name = request.node.callspec.id
        tell(f"client killed, {name}, lease {LEASE_S} s: all returned after", took_s)
        async with client.open_session() as session:
            work = await long_work(session)
            await work.queue(session, 1)
            await session.default_stream.synchronize()
            assert await work.out() == EXACT


def connection(address: str) -> socket.socket:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=300)


def ended_after_silence(address: str, first: bytes) -> float:
    """Says something, or nothing, and then never again; the seconds until the service ends it."""
    begun = time.monotonic()  # before the service can notice it
    with connection(address) as silent:
        silent.sendall(first)
        with suppress(ConnectionResetError):
            while silent.recv(4096):
                pass
        return time.monotonic() - begun


async def test_a_connection_whose_client_vanished_ends() -> None:
    async with own_process(silent_client_limit_s=str(SILENCE_S)) as (_, addresses):
        grpc_s, rest_s = await asyncio.gather(
            asyncio.to_thread(ended_after_silence, addresses.grpc, HTTP2_PREFACE),
            asyncio.to_thread(ended_after_silence, addresses.rest, b""),
        )
        for api, took_s in (("gRPC", grpc_s), ("REST", rest_s)):
            assert took_s > SILENCE_S / 2
            tell(f"silent client, {api}, limit {SILENCE_S} s: connection ended after", took_s)


async def test_a_slow_reader_of_a_download_makes_the_service_hold_little() -> None:
    async with (
        own_process(device_memory_bytes=str(MEMORY_BYTES)) as (process, addresses),
        AsyncClient(addresses.rest) as client,
        client.open_session() as session,
    ):
        buffer = await session.allocate(DOWNLOAD_BYTES)
        await buffer.fill(7)
        await buffer.read(size_bytes=MIB)
        before = front_memory_mib(process)
        target = urlsplit(addresses.rest).netloc
        path = f"/v1/sessions/{session.name}/buffers/{buffer.handle}/content"
        asked = f"GET {path} HTTP/1.1\r\nHost: {target}\r\nRange: bytes=0-\r\n\r\n"
        with connection(addresses.rest) as slow:
            await asyncio.to_thread(slow.sendall, asked.encode())
            assert await asyncio.to_thread(slow.recv, 4096, socket.MSG_WAITALL)
            for _ in range(
                20
            ):  # requests that can be sent ahead are sent while calls of others run
                await buffer.read(size_bytes=MIB)
            grown = front_memory_mib(process) - before
            assert grown < BUFFERED_MIB
            tell(
                f"reader of {DOWNLOAD_BYTES // MIB} MiB that stands still: front grew", grown, "MiB"
            )
            received = 4096
            while received < DOWNLOAD_BYTES:
                received += len(await asyncio.to_thread(slow.recv, MIB))


async def test_a_watcher_that_reads_nothing_costs_little_memory() -> None:
    async with (
        own_process() as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        client.open_session() as session,
    ):
        event = await session.create_event()
        records = [Command(record_event=RecordEventRequest(event=event.handle))] * RECORDS
        await session.submit(records)
        before = front_memory_mib(process)
        asked = f"GET /v1/sessions/{session.name}/streams/0/history HTTP/1.1\r\nHost: [::1]\r\n\r\n"
        with connection(addresses.rest) as slow:
            await asyncio.to_thread(slow.sendall, asked.encode())
            assert await asyncio.to_thread(slow.recv, 15, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK"
            for _ in range(BATCHES):
                await session.submit(records)
            grown = front_memory_mib(process) - before
        assert grown < BUFFERED_MIB
        what = f"watcher who reads none of {BATCHES * RECORDS} entries: front grew"
        tell(what, grown, "MiB")


async def test_a_client_that_lost_its_lease_gets_the_reason(service: Addresses) -> None:
    async with AsyncClient(service.grpc) as client:
        session = await client.open_session(lease_s=LEASE_S)
        await session._heartbeat.stop()  # it hangs, or its network does
        before = (await client.list_devices())[0].sessions

        async def ended() -> bool:
            return (await client.list_devices())[0].sessions < before

        await until(ended)
        with pytest.raises(AclrtError, match="107017"):
            await session.default_stream.query()
