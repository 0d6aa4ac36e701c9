"""Calls of the scope "operate": messages and RPCs, in one table."""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from opserve.v1 import command_service_pb2 as command
from opserve.v1 import event_service_pb2 as event
from opserve.v1 import memory_service_pb2 as memory
from opserve.v1 import operator_service_pb2 as operator
from opserve.v1 import session_service_pb2 as session
from opserve.v1 import stream_service_pb2 as stream
from opserve.v1 import usage_service_pb2 as usage
from opserve.v1 import watch_service_pb2 as watch

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """A call.

    Attributes:
        rpc: Service and method of package opserve.v1.
        request: Request message.
        response: Response message.
        repeatable: Whether a second execution changes nothing, so that a retry needs no request id.
        path: The path of the RPC.
    """

    rpc: str
    request: type[RequestT]
    response: type[ResponseT]
    repeatable: bool = False
    path: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", f"/opserve.v1.{self.rpc}")


LIST_DEVICES = Method(
    "SessionService/ListDevices",
    session.ListDevicesRequest,
    session.ListDevicesResponse,
)
LIST_OPERATORS = Method(
    "OperatorService/ListOperators",
    operator.ListOperatorsRequest,
    operator.ListOperatorsResponse,
)
GET_USAGE = Method(
    "UsageService/GetUsage",
    usage.GetUsageRequest,
    usage.GetUsageResponse,
)
OPEN_SESSION = Method(
    "SessionService/OpenSession",
    session.OpenSessionRequest,
    session.OpenSessionResponse,
)
LIST_WAITING = Method(
    "SessionService/ListWaiting",
    session.ListWaitingRequest,
    session.ListWaitingResponse,
)
GET_SESSION = Method(
    "SessionService/GetSession",
    session.GetSessionRequest,
    session.GetSessionResponse,
)
KEEP_ALIVE = Method(
    "SessionService/KeepAlive",
    session.KeepAliveRequest,
    session.KeepAliveResponse,
)
CLOSE_SESSION = Method(
    "SessionService/CloseSession",
    session.CloseSessionRequest,
    session.CloseSessionResponse,
)
SET_DETERMINISTIC_LEVEL = Method(
    "SessionService/SetDeterministicLevel",
    session.SetDeterministicLevelRequest,
    session.SetDeterministicLevelResponse,
)
GET_TIMELINE = Method(
    "SessionService/GetTimeline",
    session.GetTimelineRequest,
    session.GetTimelineResponse,
)
ALLOCATE = Method(
    "MemoryService/Allocate",
    memory.AllocateRequest,
    memory.AllocateResponse,
)
FREE = Method(
    "MemoryService/Free",
    memory.FreeRequest,
    memory.FreeResponse,
)
FILL = Method(
    "MemoryService/Fill",
    memory.FillRequest,
    memory.FillResponse,
)
COPY = Method(
    "MemoryService/Copy",
    memory.CopyRequest,
    memory.CopyResponse,
)
WRITE = Method(
    "MemoryService/Write",
    memory.WriteRequest,
    memory.WriteResponse,
)
READ = Method(
    "MemoryService/Read",
    memory.ReadRequest,
    memory.ReadResponse,
)
GET_WORKSPACE_SIZE = Method(
    "OperatorService/GetWorkspaceSize",
    operator.GetWorkspaceSizeRequest,
    operator.GetWorkspaceSizeResponse,
)
EXECUTE = Method(
    "OperatorService/Execute",
    operator.ExecuteRequest,
    operator.ExecuteResponse,
)
SET_REPEATABLE = Method(
    "OperatorService/SetRepeatable",
    operator.SetRepeatableRequest,
    operator.SetRepeatableResponse,
)
SET_TENSOR_BUFFER = Method(
    "OperatorService/SetTensorBuffer",
    operator.SetTensorBufferRequest,
    operator.SetTensorBufferResponse,
)
DESTROY_EXECUTOR = Method(
    "OperatorService/DestroyExecutor",
    operator.DestroyExecutorRequest,
    operator.DestroyExecutorResponse,
)
RUN = Method(
    "OperatorService/Run",
    operator.RunRequest,
    operator.RunResponse,
    repeatable=True,
)
CREATE_STREAM = Method(
    "StreamService/CreateStream",
    stream.CreateStreamRequest,
    stream.CreateStreamResponse,
)
DESTROY_STREAM = Method(
    "StreamService/DestroyStream",
    stream.DestroyStreamRequest,
    stream.DestroyStreamResponse,
)
SYNCHRONIZE_STREAM = Method(
    "StreamService/SynchronizeStream",
    stream.SynchronizeStreamRequest,
    stream.SynchronizeStreamResponse,
)
SET_FAILURE_MODE = Method(
    "StreamService/SetFailureMode",
    stream.SetFailureModeRequest,
    stream.SetFailureModeResponse,
)
ABORT_STREAM = Method(
    "StreamService/AbortStream",
    stream.AbortStreamRequest,
    stream.AbortStreamResponse,
)
QUERY_STREAM = Method(
    "StreamService/QueryStream",
    stream.QueryStreamRequest,
    stream.QueryStreamResponse,
)
WATCH_STREAM = Method(
    "StreamService/WatchStream",
    stream.WatchStreamRequest,
    stream.WatchStreamResponse,
)
CREATE_EVENT = Method(
    "EventService/CreateEvent",
    event.CreateEventRequest,
    event.CreateEventResponse,
)
DESTROY_EVENT = Method(
    "EventService/DestroyEvent",
    event.DestroyEventRequest,
    event.DestroyEventResponse,
)
RECORD_EVENT = Method(
    "EventService/RecordEvent",
    event.RecordEventRequest,
    event.RecordEventResponse,
)
STREAM_WAIT_EVENT = Method(
    "EventService/StreamWaitEvent",
    event.StreamWaitEventRequest,
    event.StreamWaitEventResponse,
)
QUERY_EVENT = Method(
    "EventService/QueryEvent",
    event.QueryEventRequest,
    event.QueryEventResponse,
)
SYNCHRONIZE_EVENT = Method(
    "EventService/SynchronizeEvent",
    event.SynchronizeEventRequest,
    event.SynchronizeEventResponse,
)
EVENT_ELAPSED_TIME = Method(
    "EventService/EventElapsedTime",
    event.EventElapsedTimeRequest,
    event.EventElapsedTimeResponse,
)
WATCH = Method("WatchService/Watch", watch.WatchRequest, watch.WatchResponse)
GET_SERIES = Method(
    "WatchService/GetSeries",
    watch.GetSeriesRequest,
    watch.GetSeriesResponse,
)
SUBMIT = Method(
    "CommandService/Submit",
    command.SubmitRequest,
    command.SubmitResponse,
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
    RUN,
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
    WATCH,
    GET_SERIES,
    SUBMIT,
)
