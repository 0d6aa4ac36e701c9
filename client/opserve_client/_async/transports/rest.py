"""Calls over REST."""

import json
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import httpx2
from typing_extensions import override

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve.v1.stream_service_pb2 import WatchStreamRequest, WatchStreamResponse
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.access import Access, TlsFiles, unusable
from opserve_client.errors import timed_out
from opserve_client.wire.chunks import CHUNK_BYTES, joined
from opserve_client.wire.conformance_methods import REPORT_RUN, VERIFY, VERIFY_OWN, ArchiveT
from opserve_client.wire.methods import READ, WATCH_STREAM, WRITE, Method, RequestT, ResponseT
from opserve_client.wire.rest_errors import from_response, from_transport_error
from opserve_client.wire.rest_forms import RestRequest, response_message, rest_request
from opserve_client.wire.server_sent_events import ServerSentEvents
from opserve_client.wire.trace_context import trace_headers

_FIRST_ERROR = 400
_SILENCE_LIMIT_S = 60.0
"""Four times the interval of the comments that the service sends while a watch has no entries."""


class AsyncRestTransport(AsyncTransport):
    """An HTTP connection to a service.

    Args:
        base_url: Address of the service: "http://127.0.0.1:8080".
        access: Credentials, and whether to use TLS; None means neither.
        http: HTTP client to use instead, such as one for an application in memory.
    """

    def __init__(
        self,
        base_url: str,
        *,
        access: Access | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._address = base_url
        self._http = http or _http_client(base_url, access)

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        form = rest_request(method, request)
        content, deadline = bytearray(), time.monotonic() + timeout_s
        try:
            async with self._http.stream(
                form.verb, form.path, headers=form.headers, json=form.body, timeout=timeout_s
            ) as response:
                # The library's time limit applies to each piece, so a slow answer never reaches it.
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if time.monotonic() > deadline:
                        raise timed_out(f"{method.rpc}: the answer took longer than {timeout_s} s")
        except httpx2.TransportError as error:
            raise from_transport_error(error, address=self._address) from error
        if response.status_code >= _FIRST_ERROR:
            raise from_response(response.status_code, bytes(content))
        return response_message(method, request, bytes(content))

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        try:
            response = await self._http.put(
                WRITE.route.format(session=request.session, buffer=request.buffer),
                params={"offset": request.offset},
                headers=trace_headers()
                | {
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(len(data)),
                },
                content=_chunks(data),
                timeout=timeout_s,
            )
        except httpx2.TransportError as error:
            raise from_transport_error(error, address=self._address) from error
        if response.status_code >= _FIRST_ERROR:
            raise from_response(response.status_code, response.content)
        return response_message(WRITE, request, response.content)

    @override
    def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes]:
        path = READ.route.format(session=request.session, buffer=request.buffer)
        last = request.offset + request.size_bytes - 1
        headers = trace_headers() | {"Range": f"bytes={request.offset}-{last}"}
        form = RestRequest(verb="GET", path=path, headers=headers, body=None)
        return self._content(form, timeout_s=timeout_s)

    @override
    def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        return self._content(rest_request(method, request), timeout_s=timeout_s)

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        form = rest_request(VERIFY_OWN if request.definition else VERIFY, request)
        parts: dict[str, tuple[str | None, str | bytes]] = {
            "args": (None, json.dumps(form.body)),
            "tensors": ("outputs.npz", bytes(data)),
        }
        try:
            response = await self._http.post(
                form.path, headers=form.headers, files=parts, timeout=timeout_s
            )
        except httpx2.TransportError as error:
            raise from_transport_error(error, address=self._address) from error
        if response.status_code >= _FIRST_ERROR:
            raise from_response(response.status_code, response.content)
        return response_message(VERIFY, request, response.content)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        return await self.call(REPORT_RUN, joined(messages), timeout_s=timeout_s)

    @override
    async def watch(self, request: WatchStreamRequest) -> AsyncGenerator[WatchStreamResponse]:
        form = rest_request(WATCH_STREAM, request)
        events = ServerSentEvents()
        # The service sends comments while a watch has no entries, so silence means a lost service.
        limits = httpx2.Timeout(_SILENCE_LIMIT_S)
        try:
            async with self._http.stream(
                form.verb, form.path, headers=form.headers, timeout=limits
            ) as response:
                if response.status_code >= _FIRST_ERROR:
                    raise from_response(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    event = events.feed(line)
                    if event is not None:
                        yield event
        except httpx2.TransportError as error:
            raise from_transport_error(error, address=self._address) from error

    @override
    async def close(self) -> None:
        await self._http.aclose()

    async def _content(self, form: RestRequest, *, timeout_s: float) -> AsyncGenerator[bytes]:
        try:
            async with self._http.stream(
                form.verb, form.path, headers=form.headers, json=form.body, timeout=timeout_s
            ) as response:
                if response.status_code >= _FIRST_ERROR:
                    raise from_response(response.status_code, await response.aread())
                async for chunk in response.aiter_bytes():
                    yield chunk
        except httpx2.TransportError as error:
            raise from_transport_error(error, address=self._address) from error


def _http_client(base_url: str, access: Access | None) -> httpx2.AsyncClient:
    if access is None:
        return httpx2.AsyncClient(base_url=base_url)
    verify = _context(access.tls) if access.secure else False
    return httpx2.AsyncClient(base_url=base_url, headers=access.headers, verify=verify)


def _context(tls: TlsFiles) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key, password="")
    except OSError as error:  # an SSLError is one
        raise unusable(tls, error) from error
    return context


async def _chunks(data: memoryview) -> AsyncIterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield bytes(data[start : start + CHUNK_BYTES])
