"""Calls over gRPC."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

import grpc
from typing_extensions import override

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.access import Access
from opserve_client.channels_async import open_channels
from opserve_client.wire.chunks import read_chunk, verify_messages, write_messages
from opserve_client.wire.conformance_methods import REPORT_RUN, VERIFY, ArchiveT
from opserve_client.wire.grpc_errors import from_rpc_error
from opserve_client.wire.methods import READ, WRITE, Method, RequestT, ResponseT
from opserve_client.wire.trace_context import trace_headers


class AsyncGrpcTransport(AsyncTransport):
    """A gRPC channel to a service.

    Args:
        target: Address of the service: "127.0.0.1:50051".
        access: Credentials, and whether to use TLS; None means neither.
    """

    def __init__(self, target: str, *, access: Access | None = None) -> None:
        secure = access is not None and access.secure
        self._address = f"{'grpcs' if secure else 'grpc'}://{target}"
        self._channel, self._reading = open_channels(target, access)
        self._headers = {} if access is None else access.headers

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        stub = self._channel.unary_unary(
            method.path, method.request.SerializeToString, method.response.FromString
        )
        try:
            return await stub(request, timeout=timeout_s, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        stub = self._channel.stream_unary(WRITE.path, bytes, WRITE.response.FromString)
        try:
            messages = write_messages(request, data)
            return await stub(messages, timeout=timeout_s, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error

    @override
    async def read(
        self, request: ReadRequest, *, timeout_s: float
    ) -> AsyncIterator[bytes | memoryview]:
        stub = self._reading.unary_stream(READ.path, READ.request.SerializeToString, bytes)
        try:
            async for message in stub(request, timeout=timeout_s, metadata=self._metadata()):
                yield read_chunk(message)
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error

    @override
    async def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        stub = self._channel.unary_stream(
            method.path, method.request.SerializeToString, method.response.FromString
        )
        call = stub(request, metadata=self._metadata())
        try:
            async for message in call:
                yield message
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error
        finally:
            call.cancel()

    @override
    async def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        stub = self._channel.unary_stream(
            method.path, method.request.SerializeToString, method.response.FromString
        )
        try:
            async for piece in stub(request, timeout=timeout_s, metadata=self._metadata()):
                yield piece.data
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        messages = verify_messages(request, data)
        return await self._upload(VERIFY, messages, timeout_s=timeout_s)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        return await self._upload(REPORT_RUN, messages, timeout_s=timeout_s)

    @override
    async def close(self) -> None:
        await self._reading.close()
        await self._channel.close()

    async def _upload(
        self, method: Method[RequestT, ResponseT], messages: Iterable[RequestT], *, timeout_s: float
    ) -> ResponseT:
        stub = self._channel.stream_unary(
            method.path, method.request.SerializeToString, method.response.FromString
        )
        try:
            return await stub(iter(messages), timeout=timeout_s, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error, address=self._address) from error

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (*trace_headers().items(), *self._headers.items())
