"""A service in memory that keeps the rules of handles, buffers and executors, but computes nothing.

Executing copies each input onto the output of its name: input to grad_input, weight to grad_weight,
grad_output to out; other outputs become zeros. Every call is written down in `calls`.
"""

from math import prod
from typing import Any

from google.protobuf.message import Message

from opserve.v1 import command_service_pb2 as command_pb2
from opserve.v1 import event_service_pb2 as event_pb2
from opserve.v1 import memory_service_pb2 as memory_pb2
from opserve.v1 import operator_service_pb2 as operator_pb2
from opserve.v1 import session_service_pb2 as session_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve.v1.operator_description_pb2 import OperatorDescription
from opserve.v1.tensor_pb2 import DataType as WireDataType
from opserve.v1.tensor_pb2 import Tensor
from opserve_client.errors import OpserveError, QuotaMembers, error_for
from opserve_client.wire.methods import METHODS, Method
from opserve_kernels.tensor import DataType

_SOURCES = {"grad_input": "input", "grad_weight": "weight", "out": "grad_output"}
_SIZES = {
    number: DataType(name.removeprefix("DATA_TYPE_")).size_bytes
    for name, number in WireDataType.items()
    if number
}
_CREATING = {"allocate": "buffer", "get_workspace_size": "executor"} | {
    "create_stream": "stream",
    "create_event": "event",
}
_METHOD_OF = {method.request: method for method in METHODS}


def refusal(code: int, parameter: str, given: object, *, ended: str = "") -> OpserveError:
    """An error as a service makes it."""
    message = f"{parameter} does not accept {given}; it accepts other values."
    return error_for(message, code=code, name="FAKE", parameter=parameter, ended=ended)


def throttling(
    retry_after_s: float, *, limit: float = 4.0, resource: str = "calls_per_s"
) -> OpserveError:
    """A rejection by a quota, as a service makes it."""
    quota = QuotaMembers(limit, limit, retry_after_s)
    return error_for(resource, code=207012, name="FAKE", parameter=resource, quota=quota)


class FakeService:
    """The handler of a memory transport.

    Attributes:
        calls: Name of each method that was called, in order.
        request_ids: Request id of each call that had one.
        failures: Errors to raise for a method or command, each once, by name.
        host: The service in a farm that its device names.
        operators: What its device lists.
        version: Its version.
        session: Name of the session.
        described: The operators that it describes.
        planned: The latest call of phase one.
        workspace_size: Bytes that phase one returns.
        broken: Broken rules of the vendor's page that phase one returns.
        opened: The latest request for a session.
        buffers: Live buffers.
        executors: Live executors.
        openings: All requests for sessions.
        levels: Deterministic levels that were set.
    """

    def __init__(self, *, workspace_size: int = 512) -> None:
        self.calls: list[str] = []
        self.request_ids: list[str] = []
        self.commands: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.workspace_size = workspace_size
        self.buffers: dict[int, bytearray] = {}
        self.executors: dict[int, Message] = {}
        self.lease_s = 30.0
        self.host = ""
        self.operators: list[str] = []
        self.version = "1.2.3"
        self.described: list[OperatorDescription] = []
        self.planned = operator_pb2.GetWorkspaceSizeRequest()
        self.broken: list[operator_pb2.RuleWarning] = []
        self.opened = session_pb2.OpenSessionRequest()
        self.openings: list[session_pb2.OpenSessionRequest] = []
        self.levels: list[session_pb2.SetDeterministicLevelRequest] = []
        self.session, self._restarts, self._ended = "5e55", 0, ""
        self._last = dict.fromkeys(_CREATING.values(), 0)

    def restart(self) -> None:
        """Forgets every session and what it had, as a front that is killed and started again."""
        self._restarts += 1
        self.session = f"5e55{self._restarts}"
        self.buffers.clear()
        self.executors.clear()
        self._last = dict.fromkeys(_CREATING.values(), 0)

    def release(self) -> None:
        """Ends the session as an administrator does."""
        self.restart()
        self._ended = "it was released"

    def __call__(self, method: Method[Any, Any], request: Message) -> Message:
        name = method.rpc.partition("/")[2]
        self.calls.append(name)
        self.request_ids.append(getattr(request, "request_id", ""))
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        session = getattr(request, "session", "")
        if self._restarts and session not in {"", self.session}:
            raise refusal(107017, "session", session, ended=self._ended)
        return self._answer(request)

    def _answer(self, request: Message) -> Message:
        answer = (
            self._sessions(request)
            or self._lifetime(request)
            or self._memory(request)
            or self._operators(request)
            or self._whole_call(request)
        )
        return answer or _METHOD_OF[type(request)].response()

    @property
    def _device(self) -> session_pb2.Device:
        return session_pb2.Device(
            name="ascend910b-0",
            profile="ascend910b",
            ready=True,
            operators=self.operators,
            host=self.host,
        )

    def _sessions(self, request: Message) -> Message | None:
        match request:
            case session_pb2.OpenSessionRequest():
                self.opened = request
                self.openings.append(request)
                return session_pb2.OpenSessionResponse(
                    session=self.session, lease_s=self.lease_s, device=self._device
                )
            case session_pb2.GetSessionRequest():
                return session_pb2.GetSessionResponse(session=self.session, lease_s=self.lease_s)
            case session_pb2.SetDeterministicLevelRequest():
                self.levels.append(request)
            case _:
                pass
        return None

    def _lifetime(self, request: Message) -> Message | None:
        match request:
            case session_pb2.ListDevicesRequest():
                return session_pb2.ListDevicesResponse(devices=[self._device], version=self.version)
            case stream_pb2.CreateStreamRequest():
                return stream_pb2.CreateStreamResponse(stream=self._make("stream", request.stream))
            case event_pb2.CreateEventRequest():
                return event_pb2.CreateEventResponse(event=self._make("event", request.event))
            case _:
                return None

    def _memory(self, request: Message) -> Message | None:
        match request:
            case memory_pb2.AllocateRequest():
                return self._allocate(request)
            case memory_pb2.FreeRequest():
                self._buffer(request.buffer)
                del self.buffers[request.buffer]
            case memory_pb2.WriteRequest():
                end = request.offset + len(request.data)
                self._buffer(request.buffer)[request.offset : end] = request.data
            case memory_pb2.ReadRequest():
                end = request.offset + request.size_bytes
                content = self._buffer(request.buffer)[request.offset : end]
                return memory_pb2.ReadResponse(data=bytes(content))
            case _:
                pass
        return None

    def _operators(self, request: Message) -> Message | None:
        match request:
            case operator_pb2.ListOperatorsRequest():
                listed = [one for one in self.described if request.operator in {"", one.call}]
                return operator_pb2.ListOperatorsResponse(operators=listed)
            case command_pb2.SubmitRequest():
                return self._submit(request)
            case operator_pb2.GetWorkspaceSizeRequest():
                return self._plan(request)
            case operator_pb2.SetTensorBufferRequest():
                self._tensors(request.executor)[request.index].buffer = request.buffer
            case operator_pb2.ExecuteRequest():
                self._execute(request)
            case operator_pb2.DestroyExecutorRequest():
                if self.executors.pop(request.executor, None) is None:
                    raise refusal(107017, "executor", request.executor)
            case _:
                pass
        return None

    def _submit(self, batch: command_pb2.SubmitRequest) -> command_pb2.SubmitResponse:
        results: list[command_pb2.CommandResult] = []
        for command in batch.commands:
            name = command.WhichOneof("command")
            assert name is not None
            self.commands.append(name)
            result = command_pb2.CommandResult()
            try:
                if self.failures.get(name):
                    raise self.failures[name].pop(0)
                answer = getattr(result, name)
                answer.SetInParent()
                answer.MergeFrom(self._answer(getattr(command, name)))
            except OpserveError as error:
                executor = getattr(error, "executor", 0)
                result.error.CopyFrom(
                    command_pb2.Error(
                        code=int(error.code),  # a fake refuses as aclnn does
                        reason=error.name,
                        message=error.message,
                        parameter=error.parameter,
                        executor=executor,
                    )
                )
            results.append(result)
            if result.HasField("error"):
                break
        return command_pb2.SubmitResponse(results=results)

    def _make(self, kind: str, chosen: int) -> int:
        handle = chosen or self._last[kind] + 1
        if handle <= self._last[kind]:
            raise refusal(107000, kind, handle)
        self._last[kind] = handle
        return handle

    def _allocate(self, request: memory_pb2.AllocateRequest) -> memory_pb2.AllocateResponse:
        size = self.workspace_size if request.workspace_of else request.size_bytes
        if size == 0:
            if request.workspace_of:
                return memory_pb2.AllocateResponse()
            raise refusal(100000, "size_bytes", 0)
        handle = self._make("buffer", request.buffer)
        self.buffers[handle] = bytearray(b"\xa5" * size)
        return memory_pb2.AllocateResponse(buffer=handle, size_bytes=size)

    def _plan(
        self, request: operator_pb2.GetWorkspaceSizeRequest
    ) -> operator_pb2.GetWorkspaceSizeResponse:
        handle = self._make("executor", request.executor)
        name = request.WhichOneof("operator")
        assert name is not None
        self.executors[handle] = getattr(request, name)
        self.planned = request
        return operator_pb2.GetWorkspaceSizeResponse(
            workspace_size=self.workspace_size, executor=handle, warnings=self.broken
        )

    def _tensors(self, executor: int) -> list[Tensor]:
        arguments = self.executors[executor]
        fields = arguments.DESCRIPTOR.fields
        return [getattr(arguments, f.name) for f in fields if f.message_type is Tensor.DESCRIPTOR]

    def _execute(self, request: operator_pb2.ExecuteRequest) -> None:
        arguments = self.executors.pop(request.executor, None)
        if arguments is None:
            raise refusal(107017, "executor", request.executor)
        for name, source in _SOURCES.items():
            if name in arguments.DESCRIPTOR.fields_by_name and arguments.HasField(name):
                target = self._buffer(getattr(arguments, name).buffer)
                given = self._buffer(getattr(arguments, source).buffer)
                target[:] = given[: len(target)].ljust(len(target), b"\0")

    def _whole_call(self, request: Message) -> Message | None:
        if not isinstance(request, operator_pb2.RunRequest):
            return None
        name = request.plan.WhichOneof("operator")
        assert name is not None
        if self.failures.get("get_workspace_size"):
            raise self.failures["get_workspace_size"].pop(0)
        self.planned = request.plan
        arguments: Message = getattr(request.plan, name)
        self.executors[0] = arguments
        tensors = dict(enumerate(self._tensors(0)))
        given = {one.index: one.data for one in request.inputs}
        made = {index: index - len(tensors) for index, tensor in tensors.items() if tensor.shape}
        for index, handle in made.items():
            size = prod(tensors[index].shape) * _SIZES[tensors[index].dtype]
            if not tensors[index].buffer:
                tensors[index].buffer = handle % 2**32
                self.buffers[handle % 2**32] = bytearray(given.get(index, b"\xa5" * size))
        self._execute(operator_pb2.ExecuteRequest())
        outputs = [
            operator_pb2.TensorData(index=index, data=bytes(self._buffer(tensor.buffer)))
            for index, tensor in tensors.items()
            if tensor.shape and index not in given
        ]
        for handle in made.values():
            self.buffers.pop(handle % 2**32, None)
        return operator_pb2.RunResponse(outputs=outputs, warnings=self.broken)

    def _buffer(self, handle: int) -> bytearray:
        if handle not in self.buffers:
            raise refusal(107017, "buffer", handle)
        return self.buffers[handle]
