"""The interface of transports: one call, one upload or one download, without retries."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.methods import Method, RequestT, ResponseT


class AsyncTransport(ABC):
    """A transport to a service. Every failure raises OpserveError or a subclass.

    The client changes the message of a request for its next call: a transport that keeps a message
    copies it.
    """

    @abstractmethod
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        """Sends one request to the service and returns the answer."""

    @abstractmethod
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        """Uploads bytes into a buffer; the request names the range and has no data."""

    @abstractmethod
    def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes | memoryview]:
        """Yields the bytes of a range of a buffer, in pieces."""

    @abstractmethod
    def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        """Yields the answers of a watch as the service sends them, until the service ends it."""

    @abstractmethod
    def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        """Yields the pieces of an .npz file of conformance, whose messages have `data`."""

    @abstractmethod
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        """Uploads an .npz file of outputs, returns their verdict; the request names the case."""

    @abstractmethod
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        """Uploads the results of a run; the first message names the suite and the target."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connection."""
