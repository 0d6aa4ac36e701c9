"""Calls to a function in this process, for tests without a server."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

from google.protobuf.message import Message
from typing_extensions import override

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, ReadResponse, WriteRequest, WriteResponse
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.wire.chunks import joined
from opserve_client.wire.conformance_methods import REPORT_RUN, VERIFY, ArchiveT
from opserve_client.wire.methods import READ, WRITE, Method, RequestT, ResponseT


class AsyncMemoryTransport(AsyncTransport):
    """A transport whose service is a function.

    Args:
        handler: Receives the method and the request, and returns the answer or raises OpserveError.
            An upload is one request with all its data, and a download one answer.
    """

    def __init__(self, handler: Callable[[Method[Any, Any], Message], Message]) -> None:
        self._handler = handler
        self.closed = False

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        return _answer(self._handler(method, request), method.response)

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        whole = WriteRequest(data=bytes(data))
        whole.MergeFrom(request)
        return _answer(self._handler(WRITE, whole), WriteResponse)

    @override
    async def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes]:
        yield _answer(self._handler(READ, request), ReadResponse).data

    @override
    async def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        yield _answer(self._handler(method, request), method.response)

    @override
    async def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        yield _answer(self._handler(method, request), method.response).data

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        whole = VerifyRequest(data=bytes(data))
        whole.MergeFrom(request)
        return _answer(self._handler(VERIFY, whole), VerifyResponse)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        return _answer(self._handler(REPORT_RUN, joined(messages)), ReportRunResponse)

    @override
    async def close(self) -> None:
        self.closed = True


def _answer(message: Message, kind: type[ResponseT]) -> ResponseT:
    if not isinstance(message, kind):
        raise TypeError(f"The handler returned {type(message).__name__}, not {kind.__name__}.")
    return message
