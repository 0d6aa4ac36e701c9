"""MemoryService's Write and Read, which parse and build messages without copies of data."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any

import grpc

from opserve.chunks import READ
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve_server.calls import caller, malformed
from opserve_server.core.service import Service
from opserve_server.grpc_api.chunks import Chunk, chunk_in
from opserve_server.grpc_api.methods import Messages, message_in

Context = grpc.aio.ServicerContext[Any, Any]


def bulk_handlers(
    service: Service, *, chunk_bytes_limit: int
) -> "Mapping[str, grpc.RpcMethodHandler[Any, Any]]":
    """The methods by name."""
    return {
        "Write": grpc.stream_unary_rpc_method_handler(
            # Write parses its messages itself: there are many, and each layer between costs time.
            partial(_write, service, chunk_bytes_limit),
            None,
            WriteResponse.SerializeToString,
        ),
        "Read": grpc.unary_stream_rpc_method_handler(
            partial(_read, service), ReadRequest.FromString, bytes
        ),
    }


async def _write(
    service: Service, chunk_bytes_limit: int, messages: Messages, _: Context
) -> WriteResponse:
    message = await anext(messages, None)
    if message is None:
        raise malformed("buffer", given="no message", allowed="a message that names it")
    first = await _chunk_in(message)
    _check_size(first, chunk_bytes_limit)
    messages.count_no_more()  # a transfer is charged as a whole, and takes no more than its size
    written = await service.write(
        caller(),
        first.header.session,
        buffer=first.header.buffer,
        offset=first.header.offset,
        size_bytes=first.header.size_bytes,
        chunks=_data(first, messages, chunk_bytes_limit),
    )
    return WriteResponse(size_bytes=written.size_bytes)


def _read(service: Service, request: ReadRequest, _: Context) -> AsyncGenerator[bytes]:
    return service.read(
        caller(),
        request.session,
        buffer=request.buffer,
        offset=request.offset,
        size_bytes=request.size_bytes,
        form=READ.message,
    )


async def _data(
    first: Chunk, others: AsyncIterator[bytes], limit_bytes: int
) -> AsyncIterator[bytes | memoryview]:
    yield _checked(first, limit_bytes)
    async for message in others:
        chunk = await _chunk_in(message)
        header = chunk.header
        if header.session or header.buffer or header.offset or header.size_bytes:
            raise malformed("data", given="a second header", allowed="data alone")
        yield _checked(chunk, limit_bytes)


async def _chunk_in(message: bytes) -> Chunk:
    chunk: Chunk = await message_in(WriteRequest.DESCRIPTOR, chunk_in, message)
    return chunk


def _checked(chunk: Chunk, limit_bytes: int) -> bytes | memoryview:
    _check_size(chunk, limit_bytes)
    chunk.check()
    return chunk.data


def _check_size(chunk: Chunk, limit_bytes: int) -> None:
    if len(chunk.data) > limit_bytes:
        given = f"a chunk of {len(chunk.data)} bytes"
        raise malformed("data", given=given, allowed=f"chunks of at most {limit_bytes} bytes")
