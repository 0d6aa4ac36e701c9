"""Clients that go in the middle of an answer fill no log."""

import grpc
import pytest
from grpc import StatusCode

from opserve.v1.memory_service_pb2 import FreeRequest
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from server.recording import SESSION, RecordingService


async def test_a_write_to_a_disconnected_client_is_no_failure_of_the_service(
    channel: grpc.aio.Channel, service: RecordingService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = grpc.aio.InternalError("a batch of operations failed")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await MemoryServiceStub(channel).Free(FreeRequest(session=SESSION, buffer=1))
    assert caught.value.code() is StatusCode.CANCELLED
    assert not caplog.records
