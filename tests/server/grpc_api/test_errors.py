"""Failures over gRPC: the status and details of each class; unforeseen ones reveal nothing."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode
from typing_extensions import override

from opserve.v1 import (
    command_service_pb2,
    memory_service_pb2,
    operator_service_pb2,
    session_service_pb2,
    tensor_pb2,
)
from opserve.v1.command_service_pb2_grpc import CommandServiceStub
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve.v1.operator_service_pb2_grpc import OperatorServiceStub
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve.v1.stream_service_pb2 import SynchronizeStreamRequest
from opserve.v1.stream_service_pb2_grpc import StreamServiceStub
from opserve_kernels.status import Status, TbeStatus
from opserve_server.core import errors
from opserve_server.core.commands import Command
from opserve_server.core.errors import OpserveError
from opserve_server.core.principal import Principal
from opserve_server.core.results import Result
from opserve_server.grpc_api.errors import ERRORS as TABLE
from server.recording import SESSION, RecordingService
from server.samples import DOMAINS, ERROR_CLASSES, ERROR_IDS, ERRORS, members_of

CODES: dict[type[OpserveError], StatusCode] = {
    errors.InvalidArgument: StatusCode.INVALID_ARGUMENT,
    errors.HandleNotFound: StatusCode.NOT_FOUND,
    errors.NotSupported: StatusCode.UNIMPLEMENTED,
    errors.WrongState: StatusCode.FAILED_PRECONDITION,
    errors.OutOfMemory: StatusCode.RESOURCE_EXHAUSTED,
    errors.LimitExceeded: StatusCode.RESOURCE_EXHAUSTED,
    errors.CallTooLarge: StatusCode.RESOURCE_EXHAUSTED,
    errors.QuotaExceeded: StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManyUnknownKeys: StatusCode.RESOURCE_EXHAUSTED,
    errors.WaitTimedOut: StatusCode.DEADLINE_EXCEEDED,
    errors.NotAllowed: StatusCode.PERMISSION_DENIED,
    errors.PermissionDenied: StatusCode.PERMISSION_DENIED,
    errors.Unauthenticated: StatusCode.UNAUTHENTICATED,
    errors.Unavailable: StatusCode.UNAVAILABLE,
    errors.StoreUnavailable: StatusCode.UNAVAILABLE,
    errors.Moved: StatusCode.FAILED_PRECONDITION,
    errors.DataCorrupted: StatusCode.DATA_LOSS,
    errors.ExecutionFailed: StatusCode.INTERNAL,
    errors.ExecutionAborted: StatusCode.ABORTED,
    errors.DeadlineMissed: StatusCode.DEADLINE_EXCEEDED,
}


def details(error: grpc.aio.AioRpcError, kind: type[Message]) -> Any:  # a `kind`
    """The only detail of a kind; None where there is none."""
    packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert isinstance(packed, bytes)
    status = RpcStatus.FromString(packed)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    found = kind()
    unpacked = [detail.Unpack(found) for detail in status.details]
    assert unpacked.count(True) <= 1
    return found if any(unpacked) else None


async def free(channel: grpc.aio.Channel, **metadata: str) -> grpc.aio.AioRpcError:
    """The failure of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await MemoryServiceStub(channel).Free(
            memory_service_pb2.FreeRequest(session=SESSION, buffer=1),
            metadata=tuple(metadata.items()),
        )
    return caught.value


def test_every_class_of_errors_has_a_row() -> None:
    assert set(TABLE) == ERROR_CLASSES | {OpserveError}


@pytest.mark.parametrize("error", ERRORS, ids=ERROR_IDS)
async def test_an_error_keeps_its_code_and_words(
    error: OpserveError, channel: grpc.aio.Channel, service: RecordingService
) -> None:
    service.error = error
    failure = await free(channel)
    assert failure.code() is CODES[type(error)]
    assert failure.details() == error.message
    info = details(failure, ErrorInfo)
    assert (info.reason, info.domain) == (error.status.name, DOMAINS[type(error.status)])
    request_id = dict(failure.trailing_metadata())["x-request-id"]
    assert dict(info.metadata) == {
        "code": str(error.status.value),
        "parameter": error.parameter,
        "given": error.given,
        "allowed": error.allowed,
        "request_id": request_id,
    } | {name: f"{value}" for name, value in members_of(error).items()}


@pytest.mark.parametrize("error", ERRORS, ids=ERROR_IDS)
async def test_an_error_states_whether_to_retry(
    error: OpserveError, channel: grpc.aio.Channel, service: RecordingService
) -> None:
    service.error = error
    failure = await free(channel)
    limited = isinstance(error, errors.LimitExceeded)
    assert (details(failure, QuotaFailure) is not None) == limited
    later = isinstance(error, errors.LimitExceeded | errors.Unavailable)
    later = later and not isinstance(error, errors.CallTooLarge)
    assert (details(failure, RetryInfo) is not None) == later
    violation = details(failure, BadRequest)
    assert (violation is not None) == isinstance(error, errors.InvalidArgument)
    if violation is not None:
        assert violation.field_violations[0].field == "groups"


async def test_an_unforeseen_error_reveals_nothing(
    channel: grpc.aio.Channel, service: RecordingService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = KeyError("secret")
    failure = await free(channel)
    assert failure.code() is StatusCode.INTERNAL
    assert str(failure.details()).startswith("The service failed: report the request id ")
    info = details(failure, ErrorInfo)
    assert (info.reason, info.metadata["code"]) == ("ACL_ERROR_INTERNAL_ERROR", "500000")
    assert "secret" not in str(failure.trailing_metadata())
    (record,) = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == info.metadata["request_id"]
    assert "secret" in caplog.text


async def test_a_failed_command_of_a_batch_is_in_its_result(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    service.error = errors.ExecutionFailed("executor: given 4", executor=4)
    request = command_service_pb2.SubmitRequest(
        session=SESSION,
        commands=[command_service_pb2.Command(free=memory_service_pb2.FreeRequest(buffer=1))],
    )
    response = await CommandServiceStub(channel).Submit(request)
    (result,) = response.results
    assert result.error.code == Status.ACL_ERROR_RT_AICORE_EXCEPTION
    assert result.error.reason == "ACL_ERROR_RT_AICORE_EXCEPTION"
    assert (result.error.message, result.error.executor) == ("executor: given 4", 4)
    assert result.error.domain == "opserve"


async def test_a_failed_command_reports_its_family_and_no_long_texts(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    given = "x" * 10_000
    service.error = errors.InvalidArgument(TbeStatus.E60011, given, parameter="p", given=given)
    free_one = command_service_pb2.Command(free=memory_service_pb2.FreeRequest(buffer=1))
    request = command_service_pb2.SubmitRequest(session=SESSION, commands=[free_one])
    response = await CommandServiceStub(channel).Submit(request)
    (result,) = response.results
    assert (result.error.domain, result.error.code) == ("opserve.tbe", 60011)
    assert result.error.reason == "E60011"
    assert response.ByteSize() < 2000


async def test_a_huge_text_does_not_break_the_trailers(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    service.error = errors.HandleNotFound("buffer", "é" * 100_000)
    failure = await free(channel)
    assert failure.code() is StatusCode.NOT_FOUND
    assert details(failure, ErrorInfo).metadata["given"].endswith("…")


async def test_the_callers_request_id_is_returned(channel: grpc.aio.Channel) -> None:
    call = MemoryServiceStub(channel).Free(
        memory_service_pb2.FreeRequest(session=SESSION, buffer=1),
        metadata=(("x-request-id", "mine-1"),),
    )
    await call
    assert dict(await call.trailing_metadata())["x-request-id"] == "mine-1"


async def test_a_request_id_of_another_form_is_replaced(channel: grpc.aio.Channel) -> None:
    call = MemoryServiceStub(channel).Free(
        memory_service_pb2.FreeRequest(session=SESSION, buffer=1),
        metadata=(("x-request-id", "two words"),),
    )
    await call
    assert len(str(dict(await call.trailing_metadata())["x-request-id"])) == 32


def plan(**tensor: int) -> operator_service_pb2.GetWorkspaceSizeRequest:
    request = operator_service_pb2.GetWorkspaceSizeRequest(session=SESSION)
    request.im2col_backward.out.CopyFrom(tensor_pb2.Tensor(**tensor))  # type: ignore[arg-type]
    return request


def batch(**command: Message) -> command_service_pb2.SubmitRequest:
    entry: Any = command_service_pb2.Command(**command)  # type: ignore[arg-type]
    return command_service_pb2.SubmitRequest(session=SESSION, request_id="r", commands=[entry])


@pytest.mark.parametrize(
    ("method", "request_message", "parameter"),
    [
        ("plan", operator_service_pb2.GetWorkspaceSizeRequest(session=SESSION), "operator"),
        ("plan", plan(dtype=77), "out.dtype"),
        ("plan", plan(format=77), "out.format"),
        ("submit", batch(), "commands.0"),
        (
            "submit",
            batch(free=memory_service_pb2.FreeRequest(session="other")),
            "commands.0.free.session",
        ),
        (
            "submit",
            batch(free=memory_service_pb2.FreeRequest(request_id="other")),
            "commands.0.free.request_id",
        ),
        (
            "submit",
            batch(write=memory_service_pb2.WriteRequest(data=b"abc", size_bytes=2)),
            "commands.0.write.size_bytes",
        ),
        (
            "submit",
            batch(get_workspace_size=plan(dtype=77)),
            "commands.0.get_workspace_size.out.dtype",
        ),
        (
            "level",
            session_service_pb2.SetDeterministicLevelRequest(session=SESSION),
            "level",
        ),
    ],
    ids=str,
)
async def test_a_message_that_contradicts_itself_is_refused(
    method: str,
    request_message: Any,  # one of three kinds
    parameter: str,
    channel: grpc.aio.Channel,
    service: RecordingService,
) -> None:
    call = {
        "plan": OperatorServiceStub(channel).GetWorkspaceSize,
        "submit": CommandServiceStub(channel).Submit,
        "level": SessionServiceStub(channel).SetDeterministicLevel,
    }[method]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(request_message)  # type: ignore[operator]
    assert caught.value.code() is StatusCode.INVALID_ARGUMENT
    info = details(caught.value, ErrorInfo)
    assert (info.metadata["code"], info.metadata["parameter"]) == ("100000", parameter)
    assert not service.asked
    assert not service.others


async def test_a_batch_may_name_its_own_session_in_a_command(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    inner = memory_service_pb2.FreeRequest(session=SESSION, request_id="r", buffer=1)
    await CommandServiceStub(channel).Submit(batch(free=inner))
    assert len(service.asked) == 1


@pytest.mark.parametrize("count", [0, 2], ids=["no header", "two headers"])
async def test_a_write_has_one_header(count: int, channel: grpc.aio.Channel) -> None:
    async def messages() -> AsyncIterator[memory_service_pb2.WriteRequest]:
        for _ in range(count):
            yield memory_service_pb2.WriteRequest(
                session=SESSION, buffer=1, size_bytes=2, data=b"a"
            )

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await MemoryServiceStub(channel).Write(messages())
    assert caught.value.code() is StatusCode.INVALID_ARGUMENT


async def test_a_read_that_is_refused_has_no_data(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    service.error = errors.HandleNotFound("buffer", 9)
    call = MemoryServiceStub(channel).Read(memory_service_pb2.ReadRequest(session=SESSION))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [response async for response in call]
    assert caught.value.code() is StatusCode.NOT_FOUND
    assert details(caught.value, ErrorInfo).metadata["code"] == "107017"


async def test_a_message_beyond_the_limit_is_refused(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    write = memory_service_pb2.WriteRequest(data=bytes(65 * 1024))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await CommandServiceStub(channel).Submit(batch(write=write))
    assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED
    assert not service.asked


async def test_a_connection_survives_a_message_beyond_the_limit(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    small = memory_service_pb2.FreeRequest(session=SESSION, buffer=1)
    await MemoryServiceStub(channel).Free(small)
    waiting = MemoryServiceStub(channel).Read(
        memory_service_pb2.ReadRequest(session=SESSION, buffer=1, size_bytes=2000)
    )
    first = await waiting.read()
    assert isinstance(first, memory_service_pb2.ReadResponse)
    large = batch(write=memory_service_pb2.WriteRequest(data=bytes(65 * 1024)))
    with pytest.raises(grpc.aio.AioRpcError):
        await CommandServiceStub(channel).Submit(large)
    assert channel.get_state() is grpc.ChannelConnectivity.READY
    second = await waiting.read()  # on the connection that the refused message came by
    assert isinstance(second, memory_service_pb2.ReadResponse)
    assert first.data + second.data == service.content[:2000]


class WaitingService(RecordingService):
    """Its calls wait until they are cancelled, and tell so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    @override
    async def run(
        self, principal: Principal, session: str, command: Command, *, request_id: str = ""
    ) -> Result:
        self.begun.set()
        await self._wait()
        return await super().run(principal, session, command, request_id=request_id)

    @override
    async def read(
        self,
        principal: Principal,
        session: str,
        *,
        buffer: int,
        offset: int,
        size_bytes: int,
        form: Callable[[memoryview], bytes] = bytes,
    ) -> AsyncGenerator[bytes]:
        del principal, session, buffer, offset, size_bytes, form
        yield b"first"
        self.begun.set()
        await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class TestCancellation:
    @pytest.fixture
    def service(self) -> WaitingService:
        return WaitingService()

    async def test_a_cancelled_call_is_cancelled_in_the_core(
        self,
        channel: grpc.aio.Channel,
        service: WaitingService,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        request = SynchronizeStreamRequest(session=SESSION)
        call = StreamServiceStub(channel).SynchronizeStream(request)
        await service.begun.wait()
        call.cancel()
        await asyncio.wait_for(service.cancelled.wait(), 300)
        assert not caplog.records

    async def test_a_deadline_ends_the_call_in_the_core(
        self, channel: grpc.aio.Channel, service: WaitingService
    ) -> None:
        request = SynchronizeStreamRequest(session=SESSION)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await StreamServiceStub(channel).SynchronizeStream(request, timeout=0.2)
        assert caught.value.code() is StatusCode.DEADLINE_EXCEEDED
        await asyncio.wait_for(service.cancelled.wait(), 300)

    async def test_a_cancelled_read_closes_its_source_at_once(
        self,
        channel: grpc.aio.Channel,
        service: WaitingService,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        call = MemoryServiceStub(channel).Read(memory_service_pb2.ReadRequest(session=SESSION))
        await service.begun.wait()
        call.cancel()
        await asyncio.wait_for(service.cancelled.wait(), 300)
        assert not caplog.records
