"""Calls with request ids, deadlines and safe retries: the one place for all three."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from google.protobuf.message import Message
from typing_extensions import TypeIs

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve.v1.stream_service_pb2 import WatchStreamRequest, WatchStreamResponse
from opserve_client import runtime_async
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.errors import (
    WORTH_A_RETRY,
    WORTH_RESUMING,
    OpserveError,
    incomprehensible,
    unreachable,
)
from opserve_client.recovery import pause_s, recovery_pauses_s
from opserve_client.wire.conformance_methods import REPORT_RUN, VERIFY, ArchiveT
from opserve_client.wire.methods import Method, RequestT, ResponseT

ATTEMPTS = 3
TRANSFER_ATTEMPTS = 6
"""Without a byte in between; they take 3 s, a tenth of the usual lease."""
SEGMENT_BYTES = 32 * 2**20
"""Bytes of an upload that are sent again at most when a connection breaks."""
_SLOWEST_BYTES_PER_S = 2**20


class _RetrySafe(Protocol):
    request_id: str


def _is_retry_safe(request: object) -> TypeIs[_RetrySafe]:
    """Reads the descriptor: since Python 3.12, isinstance finds no field of a message."""
    return isinstance(request, Message) and "request_id" in request.DESCRIPTOR.fields_by_name


class AsyncConnection:
    """A transport, used with care.

    Args:
        transport: The way to the service.
        timeout_s: Longest that a call may take; bulk bytes get a second more for each MiB.
        recovery_s: Longest that whole calls go on while the service is away.
        sleep: Waits between attempts.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        timeout_s: float,
        recovery_s: float,
        sleep: runtime_async.Sleep,
    ) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._recovery_s = recovery_s
        self._sleep = sleep
        self.closed = False

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Makes a call; one that has a request id is tried again when the service is away.

        The id is a new one, unless the request brings one.
        """
        if not _is_retry_safe(request):
            return await self._call_once(method, request)
        request.request_id = request.request_id or uuid4().hex
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._call_once(method, request)
            except OpserveError as error:
                if self.closed or error.code not in WORTH_A_RETRY:
                    raise
            await self._sleep(pause_s(attempt))
        return await self._call_once(method, request)

    async def write(self, request: WriteRequest, data: memoryview) -> None:
        """Copies bytes into a buffer, segment by segment; one that is lost is sent again."""
        for start in range(0, max(len(data), 1), SEGMENT_BYTES):
            segment = data[start : start + SEGMENT_BYTES]
            place = WriteRequest(
                session=request.session,
                buffer=request.buffer,
                offset=request.offset + start,
                size_bytes=len(segment),
            )
            for failures in count(1):
                try:
                    await self._write_segment(place, segment)
                    break
                except OpserveError as error:
                    await self._pause_or_give_up(error, failures)

    async def read(self, request: ReadRequest) -> memoryview:
        """Copies bytes of a buffer to the host; after a failure goes on from what has come."""
        content, received, failures = memoryview(b""), 0, 0
        rest = ReadRequest()
        rest.CopyFrom(request)
        while rest.size_bytes:
            try:
                async for chunk in self._read_rest(rest):
                    if not received:  # the service has said that there are so many bytes
                        content = np.empty(request.size_bytes, np.uint8).data
                    content[received : received + len(chunk)] = chunk
                    received += len(chunk)
                    failures = 0
                rest.size_bytes = 0
            except OpserveError as error:
                failures += 1
                await self._pause_or_give_up(error, failures)
                rest.offset = request.offset + received
                rest.size_bytes = request.size_bytes - received
        if received != request.size_bytes:
            raise incomprehensible(f"read: {received} bytes came, not {request.size_bytes}")
        return content

    def watch(self, request: WatchStreamRequest) -> AsyncGenerator[WatchStreamResponse]:
        """Brings news of a stream as they come, until the service ends them."""
        return self._transport.watch(request)

    async def archive(self, method: Method[RequestT, ArchiveT], request: RequestT) -> bytes:
        """Brings an .npz of conformance."""
        self._check_open(method)
        pieces = self._transport.archive(method, request, timeout_s=self._timeout_s)
        return b"".join([piece async for piece in pieces])

    async def verify(self, request: VerifyRequest, data: memoryview) -> VerifyResponse:
        """Carries an .npz of outputs to be judged."""
        self._check_open(VERIFY)
        timeout_s = self._timeout_s + len(data) / _SLOWEST_BYTES_PER_S
        return await self._transport.verify(request, data, timeout_s=timeout_s)

    async def report(self, messages: Sequence[ReportRunRequest]) -> ReportRunResponse:
        """Carries a run that was judged elsewhere."""
        self._check_open(REPORT_RUN)
        size_bytes = sum(message.ByteSize() for message in messages)
        timeout_s = self._timeout_s + size_bytes / _SLOWEST_BYTES_PER_S
        return await self._transport.report(messages, timeout_s=timeout_s)

    def recovery_pauses_s(self) -> Iterator[float]:
        """Pauses between attempts of a whole call; one that raises StopIteration is the last."""
        return recovery_pauses_s(self._recovery_s)

    async def pause(self, pause_s: float) -> None:
        """Waits so many seconds between two attempts."""
        await self._sleep(pause_s)

    async def close(self) -> None:
        """Ends the connection, if it has not ended."""
        if not self.closed:
            self.closed = True
            await self._transport.close()

    async def _call_once(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        self._check_open(method)
        return await self._transport.call(method, request, timeout_s=self._timeout_s)

    def _check_open(self, method: Method[Any, Any]) -> None:
        if self.closed:
            raise unreachable(f"{method.rpc}: the client is closed")

    async def _write_segment(self, request: WriteRequest, segment: memoryview) -> None:
        timeout_s = self._timeout_s + len(segment) / _SLOWEST_BYTES_PER_S
        await self._transport.write(request, segment, timeout_s=timeout_s)

    def _read_rest(self, request: ReadRequest) -> AsyncIterator[bytes | memoryview]:
        timeout_s = self._timeout_s + request.size_bytes / _SLOWEST_BYTES_PER_S
        return self._transport.read(request, timeout_s=timeout_s)

    async def _pause_or_give_up(self, error: OpserveError, failures: int) -> None:
        if self.closed or failures == TRANSFER_ATTEMPTS or error.code not in WORTH_RESUMING:
            raise error
        await self._sleep(pause_s(failures))
