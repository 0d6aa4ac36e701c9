"""Chunks of bytes with their checksums, however they are cut."""

from collections.abc import AsyncIterator

import grpc
import pytest
from google.protobuf.message import DecodeError
from grpc import StatusCode
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from opserve.chunks import WRITTEN, crc32c
from opserve.v1 import memory_service_pb2
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.command_service_pb2_grpc import CommandServiceStub
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve_server.grpc_api.chunks import chunk_in
from server.grpc_api.conftest import CHUNK_LIMIT
from server.recording import SESSION, RecordingService


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.binary(max_size=9), min_size=1, max_size=9),
    corrupt=st.none() | st.integers(0, 8),
)
async def test_chunks_of_any_size_arrive_up_to_the_one_that_was_changed(
    channel: grpc.aio.Channel,
    service: RecordingService,
    parts: list[bytes],
    corrupt: int | None,
) -> None:
    service.forget()
    changed = None if corrupt is None else corrupt % len(parts)

    async def messages() -> AsyncIterator[memory_service_pb2.WriteRequest]:
        for index, part in enumerate(parts):
            checksum = crc32c(part) ^ (index == changed)
            chunk = memory_service_pb2.WriteRequest(data=part, crc32c=checksum)
            if index == 0:
                chunk.session, chunk.size_bytes = SESSION, sum(map(len, parts))
            yield chunk

    if changed is None:
        await MemoryServiceStub(channel).Write(messages())
    else:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await MemoryServiceStub(channel).Write(messages())
        assert caught.value.code() is StatusCode.DATA_LOSS
    assert service.written == b"".join(parts[:changed])


async def test_a_chunk_beyond_the_limit_is_refused_and_those_before_it_stay(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    sizes = [CHUNK_LIMIT, CHUNK_LIMIT + 1]

    async def messages() -> AsyncIterator[memory_service_pb2.WriteRequest]:
        yield memory_service_pb2.WriteRequest(session=SESSION, size_bytes=sum(sizes))
        for size in sizes:
            yield memory_service_pb2.WriteRequest(data=bytes(size))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await MemoryServiceStub(channel).Write(messages())
    assert caught.value.code() is StatusCode.INVALID_ARGUMENT
    assert str(CHUNK_LIMIT) in (caught.value.details() or "")
    assert service.written == bytes(CHUNK_LIMIT)


async def test_every_chunk_that_is_read_has_its_checksum(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    request = memory_service_pb2.ReadRequest(session=SESSION, buffer=1, size_bytes=2500)
    chunks = [chunk async for chunk in MemoryServiceStub(channel).Read(request)]
    assert len(chunks) == 3
    for chunk in chunks:
        assert chunk.crc32c == crc32c(chunk.data)
    assert b"".join(chunk.data for chunk in chunks) == service.content[:2500]


async def test_inline_bytes_are_checked_too(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    inner = memory_service_pb2.WriteRequest(buffer=1, data=b"abc", crc32c=7)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await CommandServiceStub(channel).Submit(
            SubmitRequest(session=SESSION, commands=[Command(write=inner)])
        )
    assert caught.value.code() is StatusCode.DATA_LOSS
    assert not service.asked


@given(message=st.binary(max_size=40))
@example(b"")
@example(b"\x2a\xff\xff\xff\xff\xff\x35\0\0\0\0")
@example(b"\x2a\x05\x35\x35\0\0\0\0")
@example(b"\x2a\x02ab\x35\1\0\0\0")
@example(b"\x2a\x02ab\x35\1\0\0\0\x0a\1s\x10\7")
@example(b"\x2a\x02ab\x35\1\0\0\0\x10\7\x10\x08")
@example(b"\x2a\x02ab\x35\1\0\0\0\x2a\0")
@example(b"\x2a\x02ab\x35\1\0\0\0\x2a\1c")
@example(b"\x2a\x02ab\x35\1\0\0\0\x35\2\0\0\0")
@example(b"\x2a\x02ab\x35\1\0\0\0\x0a")
@example(b"\x0a\1s\x35\1\0\0\0")
def test_a_chunk_is_read_as_the_message_that_it_is(message: bytes) -> None:
    try:
        whole = memory_service_pb2.WriteRequest.FromString(message)
    except DecodeError:
        with pytest.raises(DecodeError):
            chunk_in(message)
        return
    chunk = chunk_in(message)
    assert chunk.data == whole.data
    assert chunk.checksum == (whole.crc32c if whole.HasField("crc32c") else None)
    assert (chunk.header.session, chunk.header.buffer) == (whole.session, whole.buffer)


def test_a_chunk_as_clients_write_it_is_read_without_a_copy() -> None:
    message = WRITTEN.message(memoryview(b"abc"))
    data = chunk_in(message).data
    assert isinstance(data, memoryview)
    assert data.obj is message
    assert bytes(data) == b"abc"
