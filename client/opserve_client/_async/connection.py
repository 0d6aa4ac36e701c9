"""Calls with request ids, deadlines and safe retries.

A retry of a call with a request id is safe: the service runs each id once, and answers a repeated
id with the first answer. Without an id, a lost answer leaves open whether the call ran, so such
calls are sent once. Reads and writes of ranges are idempotent: a read resumes at the first missing
byte, a write at the first unconfirmed segment. A call that the tenant's call rate rejects never
began: it waits until the rate allows it, whether or not it has an id.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from secrets import token_hex
from typing import Any, Protocol

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
from opserve_client import runtime_async
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.errors import (
    RESUMABLE,
    RETRYABLE,
    OpserveError,
    QuotaExceeded,
    malformed_answer,
    unreachable,
)
from opserve_client.recovery import RateWaits, pause_s, recovery_pauses_s
from opserve_client.runtime_async import ResultT
from opserve_client.wire.conformance_methods import REPORT_RUN, VERIFY, ArchiveT
from opserve_client.wire.methods import Method, RequestT, ResponseT

ATTEMPTS = 3
TRANSFER_ATTEMPTS = 6
"""Failures in a row, without a byte in between, that end a transfer: 3 s, a tenth of the usual
lease."""
SEGMENT_BYTES = 32 * 2**20
"""Greatest number of bytes of an upload that a broken connection causes to be sent again."""
_SLOWEST_BYTES_PER_S = 2**20
"""Transfer rate that time limits of bulk bytes assume."""


class _Identified(Protocol):
    request_id: str


def _has_request_id(request: object) -> TypeIs[_Identified]:
    """Reads the descriptor: since Python 3.12, isinstance finds no field of a message."""
    return isinstance(request, Message) and "request_id" in request.DESCRIPTOR.fields_by_name


class AsyncConnection:
    """A transport with request ids, time limits and retries.

    Args:
        transport: Transport to the service.
        timeout_s: Time limit of a call in seconds; bulk bytes add a second for each MiB.
        recovery_s: Seconds for which whole calls are retried while the service is unreachable.
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
        """Makes a call; retries it on a transient error if it may run twice or has a request id.

        All attempts carry the same id: the id of the request, or a new one.
        """
        if _has_request_id(request):
            request.request_id = request.request_id or token_hex(16)
        elif not method.repeatable:
            return await self._call_once(method, request)
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._call_once(method, request)
            except OpserveError as error:
                if self.closed or error.code not in RETRYABLE:
                    raise
            await self._sleep(pause_s(attempt))
        return await self._call_once(method, request)

    async def write(self, request: WriteRequest, data: memoryview) -> None:
        """Copies bytes into a buffer in segments, and sends a failed segment again.

        The service confirms only whole uploads. Segments bound what a broken connection repeats.
        """
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
        """Copies bytes of a buffer to the host; resumes a failed read at the first missing byte."""
        content, received, failures = memoryview(b""), 0, 0
        waits = RateWaits(self._timeout_s)
        rest = ReadRequest()
        rest.CopyFrom(request)
        while rest.size_bytes:
            try:
                async for chunk in self._read_rest(rest):
                    # Allocate at the first chunk: until then the size is the caller's claim, which
                    # the service may reject.
                    if not received:
                        content = np.empty(request.size_bytes, np.uint8).data
                    content[received : received + len(chunk)] = chunk
                    received += len(chunk)
                    failures = 0
                rest.size_bytes = 0
            except QuotaExceeded as error:
                await self._wait_for_rate(waits, error)
            except OpserveError as error:
                failures += 1
                await self._pause_or_give_up(error, failures)
                rest.offset = request.offset + received
                rest.size_bytes = request.size_bytes - received
        if received != request.size_bytes:
            raise malformed_answer(
                f"The answer has {received} of {request.size_bytes} bytes: read again."
            )
        return content

    async def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        """Yields the answers of a watch as the service sends them, until the service ends it."""
        self._check_open(method)
        waits = RateWaits(self._timeout_s)
        while True:
            try:
                async with aclosing(self._transport.watch(method, request)) as watching:
                    async for news in watching:
                        yield news
            except QuotaExceeded as error:
                await self._wait_for_rate(waits, error)
            else:
                return

    async def archive(self, method: Method[RequestT, ArchiveT], request: RequestT) -> bytes:
        """Downloads an .npz file of conformance."""
        self._check_open(method)

        async def download(timeout_s: float) -> bytes:
            pieces = self._transport.archive(method, request, timeout_s=timeout_s)
            return b"".join([piece async for piece in pieces])

        return await self._within_rate(download, timeout_s=self._timeout_s)

    async def verify(self, request: VerifyRequest, data: memoryview) -> VerifyResponse:
        """Uploads an .npz file of outputs, and returns their verdict."""
        self._check_open(VERIFY)
        return await self._within_rate(
            lambda timeout_s: self._transport.verify(request, data, timeout_s=timeout_s),
            timeout_s=self._timeout_s + len(data) / _SLOWEST_BYTES_PER_S,
        )

    async def report(self, messages: Sequence[ReportRunRequest]) -> ReportRunResponse:
        """Uploads the results of a run that another program judged."""
        self._check_open(REPORT_RUN)
        size_bytes = sum(message.ByteSize() for message in messages)
        return await self._within_rate(
            lambda timeout_s: self._transport.report(messages, timeout_s=timeout_s),
            timeout_s=self._timeout_s + size_bytes / _SLOWEST_BYTES_PER_S,
        )

    def recovery_pauses_s(self) -> Iterator[float]:
        """Yields the pauses between attempts of a whole call, in seconds."""
        return recovery_pauses_s(self._recovery_s)

    async def pause(self, pause_s: float) -> None:
        """Waits pause_s seconds between two attempts."""
        await self._sleep(pause_s)

    async def close(self) -> None:
        """Closes the connection; a closed one is no error."""
        if not self.closed:
            self.closed = True
            await self._transport.close()

    async def _call_once(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        self._check_open(method)
        return await self._within_rate(
            lambda timeout_s: self._transport.call(method, request, timeout_s=timeout_s),
            timeout_s=self._timeout_s,
        )

    async def _within_rate(
        self, attempt: runtime_async.Attempt[ResultT], *, timeout_s: float
    ) -> ResultT:
        """Repeats a call that the tenant's call rate rejects, within its time limit."""
        waits = RateWaits(timeout_s)
        while True:
            try:
                return await attempt(waits.left_s)
            except QuotaExceeded as error:
                await self._wait_for_rate(waits, error)

    async def _wait_for_rate(self, waits: RateWaits, error: QuotaExceeded) -> None:
        if self.closed:
            raise error
        await self._sleep(waits.next_pause_s(error))

    def _check_open(self, method: Method[Any, Any]) -> None:
        if self.closed:
            raise unreachable(f"{method.rpc}: the client is closed")

    async def _write_segment(self, request: WriteRequest, segment: memoryview) -> None:
        await self._within_rate(
            lambda timeout_s: self._transport.write(request, segment, timeout_s=timeout_s),
            timeout_s=self._timeout_s + len(segment) / _SLOWEST_BYTES_PER_S,
        )

    def _read_rest(self, request: ReadRequest) -> AsyncIterator[bytes | memoryview]:
        timeout_s = self._timeout_s + request.size_bytes / _SLOWEST_BYTES_PER_S
        return self._transport.read(request, timeout_s=timeout_s)

    async def _pause_or_give_up(self, error: OpserveError, failures: int) -> None:
        if self.closed or failures == TRANSFER_ATTEMPTS or error.code not in RESUMABLE:
            raise error
        await self._sleep(pause_s(failures))
