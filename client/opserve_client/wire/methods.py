"""Calls of the scope "operate": messages, gRPC names and REST routes, in one table."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from opserve.v1 import command_service_pb2 as command
from opserve.v1 import event_service_pb2 as event
from opserve.v1 import memory_service_pb2 as memory
from opserve.v1 import operator_service_pb2 as operator
from opserve.v1 import session_service_pb2 as session
from opserve.v1 import stream_service_pb2 as stream
from opserve.v1 import usage_service_pb2 as usage

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """A call.

    Attributes:
        rpc: Service and method of package opserve.v1.
        request: Request message.
        response: Response message.
        verb: HTTP verb.
        route: Path template over fields of the request; the other fields travel in the body, or in
            the query of a GET. {operator_call} is the vendor's name of the operator.
    """

    rpc: str
    request: type[RequestT]
    response: type[ResponseT]
    verb: str
    route: str

    @property
    def path(self) -> str:
        """The method's path over gRPC."""
        return f"/opserve.v1.{self.rpc}"


_SESSION = "/v1/sessions/{session}"
_BUFFER = _SESSION + "/buffers/{buffer}"
_EXECUTOR = _SESSION + "/executors/{executor}"
_STREAM = _SESSION + "/streams/{stream}"
_EVENT = _SESSION + "/events/{event}"

LIST_DEVICES = Method(
    "SessionService/ListDevices",
    session.ListDevicesRequest,
    session.ListDevicesResponse,
    "GET",
    "/v1/devices",
)
LIST_OPERATORS = Method(
    "OperatorService/ListOperators",
    operator.ListOperatorsRequest,
    operator.ListOperatorsResponse,
    "GET",
    "/v1/operators",
)
GET_USAGE = Method(
    "UsageService/GetUsage",
    usage.GetUsageRequest,
    usage.GetUsageResponse,
    "GET",
    "/v1/usage",
)
OPEN_SESSION = Method(
    "SessionService/OpenSession",
    session.OpenSessionRequest,
    session.OpenSessionResponse,
    "POST",
    "/v1/sessions",
)
LIST_WAITING = Method(
    "SessionService/ListWaiting",
    session.ListWaitingRequest,
    session.ListWaitingResponse,
    "GET",
    "/v1/waiting",
)
GET_SESSION = Method(
    "SessionService/GetSession",
    session.GetSessionRequest,
    session.GetSessionResponse,
    "GET",
    _SESSION,
)
KEEP_ALIVE = Method(
    "SessionService/KeepAlive",
    session.KeepAliveRequest,
    session.KeepAliveResponse,
    "POST",
    _SESSION + ":keepAlive",
)
CLOSE_SESSION = Method(
    "SessionService/CloseSession",
    session.CloseSessionRequest,
    session.CloseSessionResponse,
    "DELETE",
    _SESSION,
)
SET_DETERMINISTIC_LEVEL = Method(
    "SessionService/SetDeterministicLevel",
    session.SetDeterministicLevelRequest,
    session.SetDeterministicLevelResponse,
    "POST",
    _SESSION + ":setDeterministicLevel",
)
GET_TIMELINE = Method(
    "SessionService/GetTimeline",
    session.GetTimelineRequest,
    session.GetTimelineResponse,
    "GET",
    _SESSION + "/timeline",
)
ALLOCATE = Method(
    "MemoryService/Allocate",
    memory.AllocateRequest,
    memory.AllocateResponse,
    "POST",
    _SESSION + "/buffers",
)
FREE = Method(
    "MemoryService/Free",
    memory.FreeRequest,
    memory.FreeResponse,
    "DELETE",
    _BUFFER,
)
FILL = Method(
    "MemoryService/Fill",
    memory.FillRequest,
    memory.FillResponse,
    "POST",
    _BUFFER + ":fill",
)
COPY = Method(
    "MemoryService/Copy",
    memory.CopyRequest,
    memory.CopyResponse,
    "POST",
    _SESSION + "/buffers/{destination}:copy",
)
WRITE = Method(
    "MemoryService/Write",
    memory.WriteRequest,
    memory.WriteResponse,
    "PUT",
    _BUFFER + "/content",
)
READ = Method(
    "MemoryService/Read",
    memory.ReadRequest,
    memory.ReadResponse,
    "GET",
    _BUFFER + "/content",
)
GET_WORKSPACE_SIZE = Method(
    "OperatorService/GetWorkspaceSize",
    operator.GetWorkspaceSizeRequest,
    operator.GetWorkspaceSizeResponse,
    "POST",
    _SESSION + "/operators/{operator_call}:getWorkspaceSize",
)
EXECUTE = Method(
    "OperatorService/Execute",
    operator.ExecuteRequest,
    operator.ExecuteResponse,
    "POST",
    _EXECUTOR + ":execute",
)
SET_REPEATABLE = Method(
    "OperatorService/SetRepeatable",
    operator.SetRepeatableRequest,
    operator.SetRepeatableResponse,
    "POST",
    _EXECUTOR + ":setRepeatable",
)
SET_TENSOR_BUFFER = Method(
    "OperatorService/SetTensorBuffer",
    operator.SetTensorBufferRequest,
    operator.SetTensorBufferResponse,
    "POST",
    _EXECUTOR + ":setTensorBuffer",
)
DESTROY_EXECUTOR = Method(
    "OperatorService/DestroyExecutor",
    operator.DestroyExecutorRequest,
    operator.DestroyExecutorResponse,
    "DELETE",
    _EXECUTOR,
)
CREATE_STREAM = Method(
    "StreamService/CreateStream",
    stream.CreateStreamRequest,
    stream.CreateStreamResponse,
    "POST",
    _SESSION + "/streams",
)
DESTROY_STREAM = Method(
    "StreamService/DestroyStream",
    stream.DestroyStreamRequest,
    stream.DestroyStreamResponse,
    "DELETE",
    _STREAM,
)
SYNCHRONIZE_STREAM = Method(
    "StreamService/SynchronizeStream",
    stream.SynchronizeStreamRequest,
    stream.SynchronizeStreamResponse,
    "POST",
    _STREAM + ":synchronize",
)
SET_FAILURE_MODE = Method(
    "StreamService/SetFailureMode",
    stream.SetFailureModeRequest,
    stream.SetFailureModeResponse,
    "POST",
    _STREAM + ":setFailureMode",
)
ABORT_STREAM = Method(
    "StreamService/AbortStream",
    stream.AbortStreamRequest,
    stream.AbortStreamResponse,
    "POST",
    _STREAM + ":abort",
)
QUERY_STREAM = Method(
    "StreamService/QueryStream",
    stream.QueryStreamRequest,
    stream.QueryStreamResponse,
    "GET",
    _STREAM,
)
WATCH_STREAM = Method(
    "StreamService/WatchStream",
    stream.WatchStreamRequest,
    stream.WatchStreamResponse,
    "GET",
    _STREAM + "/history",
)
CREATE_EVENT = Method(
    "EventService/CreateEvent",
    event.CreateEventRequest,
    event.CreateEventResponse,
    "POST",
    _SESSION + "/events",
)
DESTROY_EVENT = Method(
    "EventService/DestroyEvent",
    event.DestroyEventRequest,
    event.DestroyEventResponse,
    "DELETE",
    _EVENT,
)
RECORD_EVENT = Method(
    "EventService/RecordEvent",
    event.RecordEventRequest,
    event.RecordEventResponse,
    "POST",
    _EVENT + ":record",
)
STREAM_WAIT_EVENT = Method(
    "EventService/StreamWaitEvent",
    event.StreamWaitEventRequest,
    event.StreamWaitEventResponse,
    "POST",
    _STREAM + ":waitEvent",
)
QUERY_EVENT = Method(
    "EventService/QueryEvent",
    event.QueryEventRequest,
    event.QueryEventResponse,
    "GET",
    _EVENT,
)
SYNCHRONIZE_EVENT = Method(
    "EventService/SynchronizeEvent",
    event.SynchronizeEventRequest,
    event.SynchronizeEventResponse,
    "POST",
    _EVENT + ":synchronize",
)
EVENT_ELAPSED_TIME = Method(
    "EventService/EventElapsedTime",
    event.EventElapsedTimeRequest,
    event.EventElapsedTimeResponse,
    "GET",
    _SESSION + "/events/{start}:elapsedTime",
)
SUBMIT = Method(
    "CommandService/Submit",
    command.SubmitRequest,
    command.SubmitResponse,
    "POST",
    _SESSION + ":submit",
)

METHODS: tuple[Method[Any, Any], ...] = (
    LIST_DEVICES,
    LIST_OPERATORS,
    GET_USAGE,
    OPEN_SESSION,
    LIST_WAITING,
    GET_SESSION,
    KEEP_ALIVE,
    CLOSE_SESSION,
    SET_DETERMINISTIC_LEVEL,
    GET_TIMELINE,
    ALLOCATE,
    FREE,
    FILL,
    COPY,
    WRITE,
    READ,
    GET_WORKSPACE_SIZE,
    EXECUTE,
    SET_REPEATABLE,
    SET_TENSOR_BUFFER,
    DESTROY_EXECUTOR,
    CREATE_STREAM,
    DESTROY_STREAM,
    SYNCHRONIZE_STREAM,
    SET_FAILURE_MODE,
    ABORT_STREAM,
    QUERY_STREAM,
    WATCH_STREAM,
    CREATE_EVENT,
    DESTROY_EVENT,
    RECORD_EVENT,
    STREAM_WAIT_EVENT,
    QUERY_EVENT,
    SYNCHRONIZE_EVENT,
    EVENT_ELAPSED_TIME,
    SUBMIT,
)
