"""MemoryService's Write and Read, whose messages are read and made without copies of their data."""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import grpc

from opserve.chunks import READ
from opserve.v1.memory_service_pb2 import ReadRequest, WriteResponse
from opserve_server.calls import caller, malformed
from opserve_server.core.service import Service
from opserve_server.grpc_api.chunks import Chunk, chunk_in

Context = grpc.aio.ServicerContext[Any, Any]


def bulk_handlers(service: Service) -> "Mapping[str, grpc.RpcMethodHandler[Any, Any]]":
    """The methods by name."""
    return {
        "Write": grpc.stream_unary_rpc_method_handler(
            partial(_write, service), chunk_in, WriteResponse.SerializeToString
        ),
        "Read": grpc.unary_stream_rpc_method_handler(
            partial(_read, service), ReadRequest.FromString, bytes
        ),
    }


async def _write(service: Service, chunks: AsyncIterator[Chunk], _: Context) -> WriteResponse:
    first = await anext(chunks, None)
    if first is None:
        raise malformed("buffer", given="no message", allowed="a message that names it")
    written = await service.write(
        caller(),
        first.header.session,
        buffer=first.header.buffer,
        offset=first.header.offset,
        size_bytes=first.header.size_bytes,
        chunks=_data(first, chunks),
    )
    return WriteResponse(size_bytes=written.size_bytes)


async def _read(service: Service, request: ReadRequest, _: Context) -> AsyncIterator[bytes]:
    chunks = service.read(
        caller(),
        request.session,
        buffer=request.buffer,
        offset=request.offset,
        size_bytes=request.size_bytes,
    )
    async for chunk in chunks:
        yield READ.message(chunk)


async def _data(first: Chunk, others: AsyncIterator[Chunk]) -> AsyncIterator[bytes]:
    yield first.intact
    async for chunk in others:
        header = chunk.header
        if header.session or header.buffer or header.offset or header.size_bytes:
            raise malformed("data", given="a second header", allowed="data alone")
        yield chunk.intact
