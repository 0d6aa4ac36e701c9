"""What every transport does: carry one call, one upload or one download. It never retries."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve.v1.stream_service_pb2 import WatchStreamRequest, WatchStreamResponse
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.methods import Method, RequestT, ResponseT


class AsyncTransport(ABC):
    """A way to a service. Every failure raises OpserveError or a subclass."""

    @abstractmethod
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        """Carries one request to the service and brings the answer."""

    @abstractmethod
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        """Carries bytes into a buffer; the request says where to, and has no data."""

    @abstractmethod
    def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes | memoryview]:
        """Brings bytes of a buffer, in pieces."""

    @abstractmethod
    def watch(self, request: WatchStreamRequest) -> AsyncGenerator[WatchStreamResponse]:
        """Brings news of a stream as they come, until the service ends them."""

    @abstractmethod
    def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        """Brings the pieces of an .npz of conformance, whose messages have `data`."""

    @abstractmethod
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        """Carries an .npz of outputs to be judged; the request says of which case."""

    @abstractmethod
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        """Carries a run that was judged elsewhere; the first message says what was tried."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the connection."""
