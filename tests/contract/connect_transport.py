"""A transport of the client over Connect, with uploads over REST, for the contract tests."""

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import httpx2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from typing_extensions import override

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve.v1.stream_service_pb2 import WatchStreamRequest, WatchStreamResponse
from opserve_client.errors import OpserveError
from opserve_client.transports import AsyncRestTransport, AsyncTransport
from opserve_client.wire.chunks import read_chunk
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.grpc_errors import _from_info
from opserve_client.wire.methods import READ, WATCH_STREAM, Method, RequestT, ResponseT
from server.connect_api.frames import END_STREAM, framed

_PREFIX = struct.Struct(">BI")


class ConnectTransport(AsyncTransport):
    """A connection to the HTTP port of a service.

    Args:
        address: The port: "http://127.0.0.1:8080".
        http: HTTP client to use instead, such as one for an application in memory.
    """

    def __init__(self, address: str, *, http: httpx2.AsyncClient | None = None) -> None:
        self._http = http or httpx2.AsyncClient(base_url=address)
        self._rest = AsyncRestTransport(address, http=self._http)

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        headers = {
            "content-type": "application/proto",
            "connect-protocol-version": "1",
            "connect-timeout-ms": f"{timeout_s * 1000:.0f}",
        }
        answer = await self._http.post(
            method.path, content=request.SerializeToString(), headers=headers, timeout=timeout_s + 1
        )
        if answer.status_code != 200:
            raise _error(answer.json())
        return method.response.FromString(answer.content)

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        return await self._rest.write(request, data, timeout_s=timeout_s)

    @override
    async def read(
        self, request: ReadRequest, *, timeout_s: float
    ) -> AsyncIterator[bytes | memoryview]:
        async for message in self._stream(READ.path, request, timeout_s=timeout_s):
            yield read_chunk(message)

    @override
    async def watch(self, request: WatchStreamRequest) -> AsyncGenerator[WatchStreamResponse]:
        async for message in self._stream(WATCH_STREAM.path, request, timeout_s=60):
            yield WatchStreamResponse.FromString(message)

    @override
    async def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        async for message in self._stream(method.path, request, timeout_s=timeout_s):
            yield method.response.FromString(message).data

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        return await self._rest.verify(request, data, timeout_s=timeout_s)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        return await self._rest.report(messages, timeout_s=timeout_s)

    @override
    async def close(self) -> None:
        await self._rest.close()

    async def _stream(
        self, path: str, request: Message, *, timeout_s: float
    ) -> AsyncGenerator[bytes]:
        headers = {"content-type": "application/connect+proto", "connect-protocol-version": "1"}
        content = framed(request.SerializeToString())
        unread = b""
        async with self._http.stream(
            "POST", path, content=content, headers=headers, timeout=timeout_s
        ) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_bytes():
                unread += piece
                while len(unread) >= _PREFIX.size:
                    flags, size = _PREFIX.unpack_from(unread)
                    if len(unread) < _PREFIX.size + size:
                        break
                    message = unread[_PREFIX.size : _PREFIX.size + size]
                    unread = unread[_PREFIX.size + size :]
                    if flags == END_STREAM:
                        _check_end(httpx2.Response(200, content=message).json())
                        return
                    yield message
        raise AssertionError("the stream has no end")


def _check_end(members: dict[str, Any]) -> None:
    if "error" in members:
        raise _error(members["error"])


def _error(members: dict[str, Any]) -> OpserveError:
    (info,) = (one for one in members["details"] if one["type"] == "google.rpc.ErrorInfo")
    return _from_info(members["message"], ParseDict(info["debug"], ErrorInfo()))
