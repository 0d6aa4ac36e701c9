"""Calls with request ids, deadlines and safe retries: the one place for all three."""

import random
from typing import Protocol, runtime_checkable
from uuid import uuid4

import numpy as np

from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve_client import runtime_async
from opserve_client._async.transports.base import AsyncTransport
from opserve_client.errors import WORTH_A_RETRY, OpserveError, unreachable
from opserve_client.wire.methods import Method, RequestT, ResponseT

ATTEMPTS = 3
_FIRST_PAUSE_S = 0.1
_SLOWEST_BYTES_PER_S = 2**20


@runtime_checkable
class _RetrySafe(Protocol):
    request_id: str


class AsyncConnection:
    """A transport, used with care.

    Args:
        transport: The way to the service.
        timeout_s: Longest that a call may take; bulk bytes get a second more for each MiB.
        sleep: Waits between attempts.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        timeout_s: float,
        sleep: runtime_async.Sleep,
    ) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._sleep = sleep
        self.closed = False

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Makes a call; one that has a request id is tried again when the service is away."""
        if not isinstance(request, _RetrySafe):
            return await self._call_once(method, request)
        request.request_id = uuid4().hex
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._call_once(method, request)
            except OpserveError as error:
                if self.closed or error.code not in WORTH_A_RETRY:
                    raise
            await self._sleep(_pause_s(attempt))
        return await self._call_once(method, request)

    async def write(self, request: WriteRequest, data: memoryview) -> None:
        """Copies bytes into a buffer."""
        request.size_bytes = len(data)
        timeout_s = self._timeout_s + len(data) / _SLOWEST_BYTES_PER_S
        await self._transport.write(request, data, timeout_s=timeout_s)

    async def read(self, request: ReadRequest) -> memoryview:
        """Copies bytes of a buffer to the host."""
        timeout_s = self._timeout_s + request.size_bytes / _SLOWEST_BYTES_PER_S
        content, received = memoryview(b""), 0
        async for chunk in self._transport.read(request, timeout_s=timeout_s):
            if not received:  # the service has said that there are so many bytes
                content = np.empty(request.size_bytes, np.uint8).data
            content[received : received + len(chunk)] = chunk
            received += len(chunk)
        return content

    async def close(self) -> None:
        """Ends the connection, if it has not ended."""
        if not self.closed:
            self.closed = True
            await self._transport.close()

    async def _call_once(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        if self.closed:
            raise unreachable(f"{method.rpc}: the client is closed")
        return await self._transport.call(method, request, timeout_s=self._timeout_s)


def _pause_s(attempt: int) -> float:
    """Doubles with each attempt, and varies so that clients do not come in step."""
    longest: float = _FIRST_PAUSE_S * 2 ** (attempt - 1)
    return longest * random.SystemRandom().uniform(0.5, 1)
