"""Conversion of commands and results, and the gRPC methods with one command each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from opserve.v1 import event_service_pb2 as event_pb
from opserve.v1 import memory_service_pb2 as memory_pb
from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1 import stream_service_pb2 as stream_pb
from opserve.v1.command_service_pb2 import Command as WireCommand
from opserve.v1.command_service_pb2 import CommandResult, Error
from opserve.v1.memory_service_pb2 import WriteRequest
from opserve.v1.operator_service_pb2 import (
    GetWorkspaceSizeRequest,
    RuleWarning,
    RunRequest,
    RunResponse,
    TensorData,
)
from opserve.v1.session_service_pb2 import DeterministicLevel as WireDeterministicLevel
from opserve.v1.stream_service_pb2 import FailureMode as WireFailureMode
from opserve.v1.stream_service_pb2 import SetFailureModeRequest
from opserve.v1.tensor_pb2 import BoolArray, Int64Array
from opserve.v1.tensor_pb2 import DataType as WireDataType
from opserve.v1.tensor_pb2 import Format as WireFormat
from opserve.v1.tensor_pb2 import Tensor as WireTensor
from opserve_kernels.errors import shortened
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType, Format, Tensor
from opserve_server.calls import VALUES_LIMIT, caller, malformed, quota_members
from opserve_server.core.commands import HANDLERS, Command
from opserve_server.core.errors import ExecutionFailed, InvalidArgument, OpserveError
from opserve_server.core.memory_commands import Write
from opserve_server.core.operator_commands import GetWorkspaceSize
from opserve_server.core.results import Done, Failed, Planned, Result
from opserve_server.core.service import DeterministicLevel, Service
from opserve_server.core.stream_commands import SetFailureMode
from opserve_server.core.streams import FailureMode
from opserve_server.core.time_slices import in_slices
from opserve_server.core.whole_calls import Computed, WholeCall
from opserve_server.grpc_api.chunks import chunk_of
from opserve_server.schemas import nested_schemas

Member = TypeVar("Member")
_COMMAND_FILES = (memory_pb, operator_pb, stream_pb, event_pb)
Context = grpc.aio.ServicerContext[Any, Any]
_REMEMBERED_BYTES = 1024
"""Size of an operator's arguments up to which they are cached, bytes."""
_REMEMBERED_MESSAGES = 256
"""Cached arguments; as frozen values they take 5 MiB at most, whatever clients send."""


def command_of(name: str, message: Message) -> Command:
    """Converts a request to its command.

    Args:
        name: The request's name in the oneof of opserve.v1.Command.
        message: The request.

    Raises:
        InvalidArgument: 100000, the message contradicts itself.
    """
    return _COMMANDS[name](message)


def command_handlers(
    service: Service,
) -> "Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]":
    """The methods with one command each, by service: all of the oneof of `Command`.

    Memory's Write and Read are streams here; bulk.py has them.
    """
    names = {request.DESCRIPTOR.full_name: name for name, request in _REQUESTS.items()}
    return {
        described.full_name: {
            method.name: _command_handler(service, names[method.input_type.full_name], method)
            for method in described.methods
            if method.input_type.full_name in names
            and not (method.client_streaming or method.server_streaming)
        }
        for file in _COMMAND_FILES
        for described in file.DESCRIPTOR.services_by_name.values()
    }


def _command_handler(
    service: Service, name: str, method: MethodDescriptor
) -> "grpc.RpcMethodHandler[Any, Any]":
    request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return grpc.unary_unary_rpc_method_handler(
        partial(_run, service, name, answer), request.FromString, answer.SerializeToString
    )


async def _run(
    service: Service,
    name: str,
    answer: type[Message],
    request: Any,  # noqa: ANN401  # of the command's own type
    _: Context,
) -> Message:
    command = command_of(name, request)
    request_id: str = getattr(request, "request_id", "")
    result = await service.run(caller(), request.session, command, request_id=request_id)
    return answer(**values_of(result))


def whole_call_of(request: RunRequest) -> WholeCall:
    """Converts a whole call.

    Raises:
        InvalidArgument: 100000, the message contradicts itself.
    """
    for part, message in (("plan", request.plan), ("open", request.open)):
        for name in ("session", "executor", "request_id", "tell_after_s"):
            given = getattr(message, name, None)
            if given:
                raise malformed(f"{part}.{name}", given=given, allowed="nothing in a whole call")
    if bool(request.session) == request.HasField("open"):
        given = f"{request.session} and open" if request.session else "neither it nor open"
        raise malformed("session", given=given, allowed="either a session or open")
    if not request.HasField("plan"):
        raise malformed("plan", given="nothing", allowed="the call of an operator")
    plan = command_of("get_workspace_size", request.plan)
    assert isinstance(plan, GetWorkspaceSize)
    tensors = len(OPERATORS[plan.operator].tensor_fields)
    inputs = {given.index: given.data for given in request.inputs[:tensors]}
    if len(inputs) < len(request.inputs):
        given, allowed = f"{len(request.inputs)} entries", f"{tensors} tensors at most, each once"
        raise malformed("inputs", given=given, allowed=allowed)
    return WholeCall(plan=plan, inputs=inputs)


def computed_of(computed: Computed) -> RunResponse:
    """The answer to a whole call."""
    return RunResponse(
        outputs=[TensorData(index=i, data=data) for i, data in computed.outputs.items()],
        warnings=[RuleWarning(**asdict(warning)) for warning in computed.warnings],
    )


async def batch_of(
    messages: Iterable[WireCommand], *, session: str, request_id: str
) -> list[tuple[str, Command]]:
    """The commands of a Submit, by their names in the oneof; yields to other calls between them.

    Raises:
        InvalidArgument: 100000, a command is empty, contradicts itself or names another session.
    """
    commands: list[tuple[str, Command]] = []
    outer = {"session": session, "request_id": request_id}
    async for index, message in in_slices(enumerate(messages)):
        name = message.WhichOneof("command")
        if name is None:
            raise malformed(f"commands.{index}", given="nothing", allowed="one command")
        inner: Message = getattr(message, name)
        try:
            _check_inner(inner, outer)
            commands.append((name, command_of(name, inner)))
        except InvalidArgument as error:
            parameter = f"commands.{index}.{name}.{error.parameter}"
            raise malformed(parameter, given=error.given, allowed=error.allowed) from error
    return commands


def values_of(result: object) -> dict[str, Any]:
    """The fields of a core result, by their names on the wire."""
    if isinstance(result, Planned) and result.warnings:
        return asdict(result)
    kind: type = type(result)
    return {name: getattr(result, name) for name in _field_names(kind)}


@cache
def _field_names(result: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(result))


def result_of(name: str, result: Result) -> CommandResult:
    """One command's answer in a Submit."""
    if isinstance(result, Done):
        return _empty_answer(name)
    if isinstance(result, Failed):
        return CommandResult(error=_error(result.error))
    return _answer(name, values_of(result))


def _answer(name: str, values: dict[str, Any]) -> CommandResult:
    answer: dict[str, Any] = {name: values}
    return CommandResult(**answer)


@cache
def _empty_answer(name: str) -> CommandResult:
    """The answer of a command without a result; a batch copies it."""
    return _answer(name, {})


def deterministic_level_of(number: int) -> DeterministicLevel:
    """A deterministic level; it has no default."""
    return _member(_DETERMINISTIC_LEVELS, number, "level")


def _check_inner(message: Message, outer: Mapping[str, str]) -> None:
    for name, allowed in outer.items():
        given = getattr(message, name, "")
        if given and given != allowed:
            raise malformed(name, given=given, allowed="nothing, or the value of the batch")


def _error(error: OpserveError) -> Error:
    return Error(
        code=error.status.value,
        reason=error.status.name,
        domain=error.status.domain,
        message=shortened(error.message),
        parameter=shortened(error.parameter),
        given=shortened(error.given),
        allowed=shortened(error.allowed),
        executor=error.executor if isinstance(error, ExecutionFailed) else 0,
        **quota_members(error),
    )


def _plain(command: Callable[..., Command]) -> Callable[[Message], Command]:
    """A converter for a request with the fields of its command; an absent field is None."""
    described = fields(command)  # type: ignore[arg-type]  # a dataclass
    names = [field.name for field in described if field.default is not None]
    optional = [field.name for field in described if field.default is None]

    def convert(message: Message) -> Command:
        given = {name: getattr(message, name) for name in names}
        for name in optional:
            if message.HasField(name):
                given[name] = getattr(message, name)
        return command(**given)

    return convert


def _write(message: Message) -> Command:
    assert isinstance(message, WriteRequest)
    if message.size_bytes not in {0, len(message.data)}:
        raise malformed("size_bytes", given=message.size_bytes, allowed=len(message.data))
    chunk_of(message).check()
    return Write(buffer=message.buffer, offset=message.offset, data=message.data)


def _set_failure_mode(message: Message) -> Command:
    assert isinstance(message, SetFailureModeRequest)
    mode = _member(_FAILURE_MODES, message.mode, "mode")
    return SetFailureMode(stream=message.stream, mode=mode)


def _get_workspace_size(message: Message) -> Command:
    assert isinstance(message, GetWorkspaceSizeRequest)
    name = message.WhichOneof("operator")
    if name is None:
        raise malformed("operator", given="nothing", allowed=", ".join(OPERATORS))
    given: Message = getattr(message, name)
    data = given.SerializeToString()
    if len(data) <= _REMEMBERED_BYTES:
        arguments = _remembered_arguments(name, data)
    else:
        arguments = _arguments(given, OPERATORS[name].schema)
    return GetWorkspaceSize(operator=name, arguments=arguments, executor=message.executor)


@lru_cache(maxsize=_REMEMBERED_MESSAGES)
def _remembered_arguments(operator: str, data: bytes) -> object:
    """The arguments of a message, cached by its bytes: equal calls are planned repeatedly."""
    given: Message = getattr(GetWorkspaceSizeRequest(), operator)
    given.MergeFromString(data)
    return _arguments(given, OPERATORS[operator].schema)


def _arguments(message: Message, schema: type) -> object:
    """An instance of a schema; ListFields names the present fields, also zero or empty ones."""
    converters = _converters(message.DESCRIPTOR, schema)
    given: dict[str, Any] = {field.name: value for field, value in message.ListFields()}
    for name in given.keys() & converters.keys():
        given[name] = converters[name](given[name])
    return schema(**given)


@cache
def _converters(message: Descriptor, schema: type) -> Mapping[str, Callable[[Any], object]]:
    """Converters of message fields to arguments; all other fields are used as they are."""
    nested = nested_schemas(schema)
    kinds = {field.name: field.message_type for field in message.fields if field.message_type}
    return {
        name: partial(_arguments, schema=nested[name])
        if name in nested
        else partial(_tensor, name)
        if kind is WireTensor.DESCRIPTOR
        else partial(_values, name)
        for name, kind in kinds.items()
    }


def _values(name: str, message: Int64Array | BoolArray) -> tuple[int, ...]:
    return _few(message.values, name)


def _few(values: Sequence[int], *parameter: str) -> tuple[int, ...]:
    if len(values) > VALUES_LIMIT:
        given, allowed = f"{len(values)} values", f"at most {VALUES_LIMIT} values"
        raise malformed(".".join(parameter), given=given, allowed=allowed)
    return tuple(values)


def _tensor(name: str, message: WireTensor) -> Tensor:
    return Tensor(
        shape=_few(message.shape, name, "shape"),
        dtype=_member(_DATA_TYPES, message.dtype, name, "dtype"),
        format=_member(_FORMATS, message.format, name, "format"),
        strides=(
            _few(message.strides.values, name, "strides") if message.HasField("strides") else None
        ),
        offset=message.offset,
        storage_shape=(
            _few(message.storage_shape.values, name, "storage_shape")
            if message.HasField("storage_shape")
            else None
        ),
        buffer=message.buffer,
    )


def _member(table: Mapping[int, Member], number: int, *parameter: str) -> Member:
    member = table.get(number)
    if member is None:
        allowed = ", ".join(sorted({str(known) for known in table.values()}))
        raise malformed(".".join(parameter), given=number, allowed=allowed)
    return member


def _members(
    names: list[tuple[str, Any]], prefix: str, member: Callable[[str], Member]
) -> dict[int, Member]:
    return {number: member(name.removeprefix(prefix)) for name, number in names if number}


_DATA_TYPES = {0: DataType.UNDEFINED, **_members(WireDataType.items(), "DATA_TYPE_", DataType)}
_FORMATS = {0: Format.ND, **_members(WireFormat.items(), "FORMAT_", Format)}
_FAILURE_MODES = {
    0: FailureMode.CONTINUE,
    **_members(WireFailureMode.items(), "FAILURE_MODE_", FailureMode),
}
_DETERMINISTIC_LEVELS = _members(
    WireDeterministicLevel.items(), "DETERMINISTIC_LEVEL_", DeterministicLevel
)


def _request_class(name: str) -> type[Message]:
    request: Message = getattr(WireCommand(), name)
    return type(request)


_CONVERTERS: Mapping[type[Command], Callable[[Message], Command]] = {
    Write: _write,
    SetFailureMode: _set_failure_mode,
    GetWorkspaceSize: _get_workspace_size,
}
"""Converters of requests whose fields differ from their command's; all others are plain."""
_REQUESTS: Mapping[str, type[Message]] = {
    field.name: _request_class(field.name)
    for field in WireCommand.DESCRIPTOR.oneofs_by_name["command"].fields
}
"""Message classes of commands, by their names in the oneof."""
_NAMED = {f"{command.__name__}Request": command for command in HANDLERS}
_COMMANDS: Mapping[str, Callable[[Message], Command]] = {
    name: _CONVERTERS.get(command) or _plain(command)
    for name, request in _REQUESTS.items()
    for command in [_NAMED[request.__name__]]
}
