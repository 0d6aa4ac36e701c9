"""Every command reaches the core unchanged, and so does its answer the client."""

import re
from collections.abc import AsyncIterator
from dataclasses import asdict, fields, is_dataclass
from typing import Any, get_args

import grpc
import pytest
from google.protobuf.message import Message

from opserve.v1 import (
    command_service_pb2,
    command_service_pb2_grpc,
    conv2d_backprop_filter_pb2,
    conv2d_backprop_input_pb2,
    convolution_backward_pb2,
    deconv_grad_filter_pb2,
    event_service_pb2,
    event_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    operator_service_pb2,
    operator_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
    stream_service_pb2,
    stream_service_pb2_grpc,
    tensor_pb2,
)
from opserve_kernels.tensor import Tensor
from opserve_server.core import results
from opserve_server.core.commands import Command
from opserve_server.core.service import DeterministicLevel
from opserve_server.core.streams import FailureMode
from opserve_server.grpc_api.convert import values_of
from opserve_server.version import VERSION
from server.core import every_command as core
from server.recording import (
    ASKED,
    DEVICE,
    RESULTS,
    SERVICES,
    SESSION,
    SHARED_MEMORY,
    SHARED_MEMORY_TOKEN,
    WAITING,
    WARNING,
    RecordingService,
)
from server.samples import COMMANDS, OPERATOR_CALLS

MODULES = {
    memory_service_pb2: memory_service_pb2_grpc.MemoryServiceStub,
    operator_service_pb2: operator_service_pb2_grpc.OperatorServiceStub,
    stream_service_pb2: stream_service_pb2_grpc.StreamServiceStub,
    event_service_pb2: event_service_pb2_grpc.EventServiceStub,
}
SCHEMAS = (
    convolution_backward_pb2,
    conv2d_backprop_filter_pb2,
    conv2d_backprop_input_pb2,
    deconv_grad_filter_pb2,
)


def snake(command: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower()


def tensor(value: Tensor) -> tensor_pb2.Tensor:
    def array(values: tuple[int, ...] | None) -> tensor_pb2.Int64Array | None:
        return None if values is None else tensor_pb2.Int64Array(values=values)

    return tensor_pb2.Tensor(
        shape=value.shape,
        dtype=tensor_pb2.DataType.Value(f"DATA_TYPE_{value.dtype}"),
        format=tensor_pb2.Format.Value(f"FORMAT_{value.format}"),
        strides=array(value.strides),
        offset=value.offset,
        storage_shape=array(value.storage_shape),
        buffer=value.buffer,
    )


def array_of(values: tuple[Any, ...]) -> Message:
    if any(type(value) is bool for value in values):
        return tensor_pb2.BoolArray(values=values)
    return tensor_pb2.Int64Array(values=values)


def wire(value: object) -> Any:  # what a message's field takes
    match value:
        case Tensor():
            return tensor(value)
        case tuple():
            return array_of(value)  # pyright: ignore[reportUnknownArgumentType]  # of anything
        case FailureMode():
            return stream_service_pb2.FailureMode.Value(f"FAILURE_MODE_{value}")
        case _ if is_dataclass(value) and not isinstance(value, type):
            name = type(value).__name__
            kind = next(getattr(module, name) for module in SCHEMAS if hasattr(module, name))
            return kind(**{f.name: wire(getattr(value, f.name)) for f in fields(value)})
        case _:
            return value


def message(command: Command, **outer: str) -> Message:
    """The request for a command, made without the code under test."""
    values: dict[str, Any] = {f.name: getattr(command, f.name) for f in fields(command)}
    if isinstance(command, core.GetWorkspaceSize):
        values = {command.operator: command.arguments, "executor": command.executor}
    name = f"{type(command).__name__}Request"
    kind = next(getattr(module, name) for module in MODULES if hasattr(module, name))
    made: Message = kind(**{field: wire(value) for field, value in values.items()}, **outer)
    return made


def method(channel: grpc.aio.Channel, command: type) -> Any:  # one of many
    name = command.__name__
    stub = next(stub for module, stub in MODULES.items() if hasattr(module, f"{name}Request"))
    return getattr(stub(channel), name)


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if not isinstance(command, core.Write | core.Read)],
    ids=lambda command: type(command).__name__,
)
async def test_a_call_reaches_the_core_as_its_command(
    command: Command, channel: grpc.aio.Channel, service: RecordingService
) -> None:
    request = message(command, session=SESSION)
    takes_id = "request_id" in request.DESCRIPTOR.fields_by_name
    if takes_id:
        request = message(command, session=SESSION, request_id="once")
    response = await method(channel, type(command))(request)
    assert service.asked == [(SESSION, "once" if takes_id else "", [command])]
    expected = RESULTS.get(type(command), results.Done())
    assert response == type(response)(**asdict(expected))


@pytest.mark.parametrize("command", OPERATOR_CALLS, ids=lambda command: command.operator)
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "in a batch"])
async def test_arguments_keep_their_parts_and_what_is_zero_or_empty(
    command: core.GetWorkspaceSize,
    channel: grpc.aio.Channel,
    service: RecordingService,
    *,
    batched: bool,
) -> None:
    request: Any = message(command, session=SESSION)
    if batched:
        entry = command_service_pb2.Command(get_workspace_size=request)
        batch = command_service_pb2.SubmitRequest(session=SESSION, commands=[entry])
        await command_service_pb2_grpc.CommandServiceStub(channel).Submit(batch)
    else:
        await operator_service_pb2_grpc.OperatorServiceStub(channel).GetWorkspaceSize(request)
    assert service.command == command


async def test_a_batch_reaches_the_core_in_order_and_is_answered_in_order(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    batch: list[Any] = [{snake(type(command)): message(command)} for command in COMMANDS]
    request = command_service_pb2.SubmitRequest(
        session=SESSION,
        request_id="once",
        commands=[command_service_pb2.Command(**entry) for entry in batch],
    )
    response = await command_service_pb2_grpc.CommandServiceStub(channel).Submit(request)
    assert service.asked == [(SESSION, "once", COMMANDS)]
    names = [result.WhichOneof("result") for result in response.results]
    assert names == [snake(type(command)) for command in COMMANDS]
    assert response.results[4].read.data == b"\xfb\xff\xfe"
    planned = response.results[6].get_workspace_size
    assert planned.executor == 9
    assert planned.warnings == [operator_service_pb2.RuleWarning(**asdict(WARNING))]


def test_the_oneof_of_a_batch_has_every_command() -> None:
    names = {field.name for field in command_service_pb2.Command.DESCRIPTOR.fields}
    assert names == {snake(command) for command in get_args(Command)}


async def test_absent_fields_reach_the_core_as_nothing(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    stub = operator_service_pb2_grpc.OperatorServiceStub(channel)
    await stub.GetWorkspaceSize(
        operator_service_pb2.GetWorkspaceSizeRequest(
            session=SESSION, convolution_backward=convolution_backward_pb2.ConvolutionBackward()
        )
    )
    await stub.Execute(operator_service_pb2.ExecuteRequest(session=SESSION, executor=1))
    (_, _, (planned,)), (_, _, (executed,)) = service.asked
    assert isinstance(planned, core.GetWorkspaceSize)
    assert planned.arguments == type(planned.arguments)()
    assert executed == core.Execute(executor=1, workspace_size=None)


async def test_sessions_reach_the_core(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    stub = session_service_pb2_grpc.SessionServiceStub(channel)
    listed = await stub.ListDevices(session_service_pb2.ListDevicesRequest())
    opened = await stub.OpenSession(
        session_service_pb2.OpenSessionRequest(**values_of(ASKED), request_id="once")
    )
    found = await stub.GetSession(session_service_pb2.GetSessionRequest(session=SESSION))
    renewed = await stub.KeepAlive(session_service_pb2.KeepAliveRequest(session=SESSION))
    await stub.SetDeterministicLevel(
        session_service_pb2.SetDeterministicLevelRequest(
            session=SESSION, level=session_service_pb2.DETERMINISTIC_LEVEL_BATCH
        )
    )
    await stub.CloseSession(session_service_pb2.CloseSessionRequest(session=SESSION))
    assert listed.devices[0].operators == list(DEVICE.operators)
    assert listed.devices[0].free_memory_bytes == DEVICE.free_memory_bytes
    assert listed.version == VERSION
    assert (opened.session, opened.device.name, opened.lease_s) == (SESSION, DEVICE.name, 2.5)
    assert (found.session, found.device.name) == (SESSION, DEVICE.name)
    assert (found.lease_s, found.local_lane) == (30.0, SHARED_MEMORY)
    assert opened.local_lane_token == found.local_lane_token == SHARED_MEMORY_TOKEN
    assert (found.last_buffer, found.last_executor) == (7, 9)
    assert found.exclusive_left_s == 4.5
    assert (opened.accuracy, opened.documented_rules) == ("direct", "error")
    assert (found.accuracy, found.documented_rules) == ("fast", "warn")
    assert (found.last_stream, found.last_event) == (4, 5)
    services = [session_service_pb2.FarmService(**values_of(one)) for one in SERVICES]
    assert list(opened.services) == list(found.services) == services
    assert renewed.lease_s == 30.0
    assert service.others == [
        ("open_session", ASKED, "once"),
        ("get_session", SESSION),
        ("keep_alive", SESSION),
        ("set_deterministic_level", SESSION, DeterministicLevel.BATCH),
        ("close_session", SESSION),
    ]


async def test_a_request_that_waits_is_answered_with_its_position(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    stub = session_service_pb2_grpc.SessionServiceStub(channel)
    asked = session_service_pb2.OpenSessionRequest(
        **values_of(ASKED), request_id="once", tell_after_s=2.0
    )
    answer = await stub.OpenSession(asked)
    assert [one.name for one in answer.services] == ["a", "b"]
    (listed,) = (await stub.ListWaiting(session_service_pb2.ListWaitingRequest())).waiting
    assert service.others == [("ask_for_session", ASKED, "once", 2.0)]
    assert not answer.session
    assert answer.waiting == listed
    values = {f.name: getattr(listed, f.name) for f in fields(WAITING)}
    assert values | {"tags": tuple(listed.tags)} == values_of(WAITING)


async def test_a_write_streams_into_the_core(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    async def messages() -> AsyncIterator[memory_service_pb2.WriteRequest]:
        yield memory_service_pb2.WriteRequest(
            session=SESSION, buffer=3, offset=8, size_bytes=5, data=b"ab"
        )
        yield memory_service_pb2.WriteRequest(data=b"cde")

    written = await memory_service_pb2_grpc.MemoryServiceStub(channel).Write(messages())
    assert service.others == [("write", SESSION, 3, 8, 5)]
    assert service.written == b"abcde"
    assert written.size_bytes == 5


async def test_a_read_streams_out_of_the_core(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    request = memory_service_pb2.ReadRequest(session=SESSION, buffer=3, offset=8, size_bytes=2500)
    chunks = [
        response.data
        async for response in memory_service_pb2_grpc.MemoryServiceStub(channel).Read(request)
    ]
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 500]
    assert b"".join(chunks) == service.content[8:2508]
    assert service.others == [("read", SESSION, 3, 8, 2500)]
