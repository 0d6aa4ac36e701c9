"""Messages that calls of a tenant keep stay within its bytes in flight."""

import asyncio

import grpc
import pytest

from opserve.v1.stream_service_pb2 import WatchStreamRequest
from opserve_client import AsyncClient
from system.drills import front_memory_mib, own_process, tell

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]
MIB = 2**20
QUOTA_MIB, MESSAGE_MIB, CALLS = 16, 3, 40
MEMORY_MIB = 64
"""Allowed growth of the front; all messages together take 120 MiB, and parsed ones 240."""
WATCH = "/opserve.v1.StreamService/WatchStream"
UNKNOWN = b"\xfa\x3f\x80\x80\xc0\x01" + bytes(MESSAGE_MIB * MIB)
"""A field of that size which no message has."""


async def test_an_upload_may_take_the_whole_quota() -> None:
    settings = {"devices": '["reference"]', "tenant_bytes_in_flight": str(MIB)}
    async with (
        own_process(shared_memory="false", **settings) as (_, addresses),
        AsyncClient(addresses.grpc, timeout_s=20.0) as client,
        client.open_session("reference") as session,
    ):
        buffer = await session.allocate(MIB)
        await buffer.write(bytes(range(256)) * 4096)
        assert await buffer.read(size_bytes=256) == bytes(range(256))


async def test_messages_that_calls_keep_stay_within_the_quota() -> None:
    settings = {
        "devices": '["reference"]',
        "log_level": "ERROR",
        "tenant_bytes_in_flight": str(QUOTA_MIB * MIB),
    }
    async with (
        own_process(**settings) as (process, addresses),
        AsyncClient(addresses.grpc, timeout_s=20.0) as client,
        client.open_session("reference") as session,
        grpc.aio.insecure_channel(addresses.grpc) as channel,
    ):
        large = WatchStreamRequest(session=session.name).SerializeToString() + UNKNOWN
        watch = channel.unary_stream(WATCH, bytes, bytes)
        before = front_memory_mib(process)
        watches = [watch(large) for _ in range(CALLS)]
        ends = [asyncio.ensure_future(call.code()) for call in watches]
        kept = QUOTA_MIB // MESSAGE_MIB
        async with asyncio.timeout(60):
            while sum(end.done() for end in ends) < CALLS - kept:
                await asyncio.wait(
                    [end for end in ends if not end.done()], return_when=asyncio.FIRST_COMPLETED
                )
        assert {end.result() for end in ends if end.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        await session.create_event()
        more = front_memory_mib(process) - before
        tell(f"{CALLS} messages that calls of a tenant keep: the front larger by", more, "MiB")
        assert more < MEMORY_MIB
        for call in watches:
            call.cancel()
