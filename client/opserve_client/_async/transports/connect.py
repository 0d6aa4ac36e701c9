"""Calls over the Connect protocol, and bulk bytes over the byte routes of the REST API."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import lru_cache
from math import ceil

from google.protobuf.message import DecodeError
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
from opserve_client.errors import malformed_answer
from opserve_client.http_async import HttpConnections
from opserve_client.wire.chunks import joined
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.connect_streams import Messages, enveloped
from opserve_client.wire.http_errors import from_connect, from_failure, from_route
from opserve_client.wire.http_messages import HttpFailure, Request, origin_of, tls_context
from opserve_client.wire.methods import Method, RequestT, ResponseT
from opserve_client.wire.rest_routes import (
    RestRequest,
    content_path,
    report_request,
    response_message,
    verify_request,
    write_request,
)
from opserve_client.wire.trace_context import trace_headers

_OK = 200
_FIRST_ERROR = 400
_UNARY, _STREAM = "application/proto", "application/connect+proto"
_GRACE_S, _LONGEST_S, _MS_PER_S = 1, 9_999_998, 1000
"""The protocol has ten digits for a deadline in milliseconds."""
_Fields = tuple[tuple[str, str], ...]


class AsyncConnectTransport(AsyncTransport):
    """HTTP connections to a service, for the Connect protocol.

    Args:
        base_url: Address of the service: "http://127.0.0.1:8080".
        access: Credentials, and whether to use TLS; None means neither.
        http: Connections to use instead, such as those to an application in memory.
    """

    def __init__(
        self,
        base_url: str,
        *,
        access: Access | None = None,
        http: HttpConnections | None = None,
    ) -> None:
        self._address = base_url
        self._credentials: _Fields = () if access is None else tuple(access.headers.items())
        context = None if access is None else tls_context(access)
        self._http = http or HttpConnections(origin_of(base_url), context)

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        fields = _connect_fields(_UNARY, timeout_s) + self._headers()
        sent = Request("POST", method.path, fields, request.SerializeToString())
        try:
            status, content = await self._http.call(sent, timeout_s=timeout_s)
        except HttpFailure as failure:
            raise from_failure(failure, call=method.rpc, address=self._address) from failure
        if status != _OK:
            raise from_connect(status, content, address=self._address)
        return self._parsed(method, content)

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        content = await self._send("PUT", write_request(request, data), timeout_s=timeout_s)
        return response_message(content, WriteResponse, address=self._address)

    @override
    async def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes]:
        last = request.offset + request.size_bytes - 1
        fields = (("range", f"bytes={request.offset}-{last}"), *self._headers())
        sent = Request("GET", content_path(request), fields)
        try:
            async with self._http.stream(sent, timeout_s=timeout_s) as answer:
                if answer.status >= _FIRST_ERROR:
                    raise from_route(answer.status, await answer.aread(), address=self._address)
                async for piece in answer.pieces():
                    yield piece
        except HttpFailure as failure:
            raise from_failure(failure, call="Read", address=self._address) from failure

    @override
    async def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        # The service ends every watch after a while; the system notices a host that is gone.
        async with aclosing(self._messages(method, request, timeout_s=None)) as messages:
            async for message in messages:
                yield message

    @override
    async def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        async with aclosing(self._messages(method, request, timeout_s=timeout_s)) as messages:
            async for message in messages:
                yield message.data

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        content = await self._send("POST", verify_request(request, data), timeout_s=timeout_s)
        return response_message(content, VerifyResponse, address=self._address)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        content = await self._send("POST", report_request(joined(messages)), timeout_s=timeout_s)
        return response_message(content, ReportRunResponse, address=self._address)

    @override
    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, verb: str, request: RestRequest, *, timeout_s: float) -> bytes:
        """Calls a REST route, and returns the body of the answer."""
        fields = (("content-type", request.content_type), *self._headers())
        sent = Request(verb, request.path, fields, request.body)
        try:
            status, content = await self._http.call(sent, timeout_s=timeout_s)
        except HttpFailure as failure:
            raise from_failure(failure, call=request.path, address=self._address) from failure
        if status >= _FIRST_ERROR:
            raise from_route(status, content, address=self._address)
        return content

    async def _messages(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float | None
    ) -> AsyncGenerator[ResponseT]:
        """Yields the answers of an RPC with a stream of them."""
        fields = _connect_fields(_STREAM, timeout_s) + self._headers()
        sent = Request("POST", method.path, fields, enveloped(request.SerializeToString()))
        messages = Messages(self._address)
        try:
            async with self._http.stream(sent, timeout_s=timeout_s) as answer:
                if answer.status != _OK:
                    content = await answer.aread()
                    raise from_connect(answer.status, content, address=self._address)
                async for piece in answer.pieces():
                    for message in messages.feed(piece):
                        yield self._parsed(method, message)
                messages.close()
        except HttpFailure as failure:
            raise from_failure(failure, call=method.rpc, address=self._address) from failure

    def _parsed(self, method: Method[RequestT, ResponseT], content: bytes) -> ResponseT:
        try:
            return method.response.FromString(content)
        except DecodeError as error:
            raise malformed_answer(f"{self._address}: {method.rpc}: {error}") from error

    def _headers(self) -> _Fields:
        return (*self._credentials, *trace_headers().items())


@lru_cache(64)
def _connect_fields(media_type: str, timeout_s: float | None) -> _Fields:
    """Returns the fields of the protocol; the service ends a call after the client has given up."""
    fields = (("content-type", media_type), ("connect-protocol-version", "1"))
    if timeout_s is None:
        return fields
    limit_s = ceil(min(timeout_s, _LONGEST_S)) + _GRACE_S
    return (*fields, ("connect-timeout-ms", f"{limit_s * _MS_PER_S}"))
