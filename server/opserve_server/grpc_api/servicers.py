"""The gRPC services: each method converts, calls the core, and converts back."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message
from typing_extensions import override

from opserve.v1 import command_service_pb2 as command_pb
from opserve.v1 import event_service_pb2 as event_pb
from opserve.v1 import memory_service_pb2 as memory_pb
from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1 import session_service_pb2 as session_pb
from opserve.v1 import stream_service_pb2 as stream_pb
from opserve.v1 import usage_service_pb2 as usage_pb
from opserve.v1.command_service_pb2_grpc import CommandServiceServicer
from opserve.v1.event_service_pb2_grpc import EventServiceServicer
from opserve.v1.memory_service_pb2_grpc import MemoryServiceServicer
from opserve.v1.operator_service_pb2_grpc import OperatorServiceServicer
from opserve.v1.session_service_pb2_grpc import SessionServiceServicer
from opserve.v1.stream_service_pb2_grpc import StreamServiceServicer
from opserve.v1.usage_service_pb2_grpc import UsageServiceServicer
from opserve_server.calls import caller
from opserve_server.core.history import NoNews
from opserve_server.core.infos import WaitingInfo
from opserve_server.core.service import Service
from opserve_server.grpc_api.convert import (
    batch_of,
    command_of,
    deterministic_level_of,
    result_of,
    values_of,
)
from opserve_server.grpc_api.descriptions import description_of
from opserve_server.grpc_api.histories import news_of, timeline_of
from opserve_server.grpc_api.sessions import (
    device_of,
    found_of,
    opened_of,
    session_request_of,
    waiting_of,
)

Context = grpc.aio.ServicerContext[Any, Any]
Values = dict[str, Any]


class _InSession(Protocol):
    """Every request that names a session."""

    session: str


async def _run(service: Service, name: str, request: _InSession) -> Values:
    """Runs one command; the values are the fields of its response."""
    assert isinstance(request, Message)
    request_id: str = getattr(request, "request_id", "")
    command = command_of(name, request)
    return values_of(await service.run(caller(), request.session, command, request_id=request_id))


@dataclass(frozen=True, slots=True)
class SessionFace(SessionServiceServicer):
    """Leases on devices."""

    service: Service

    @override
    async def ListDevices(
        self, request: session_pb.ListDevicesRequest, context: Context
    ) -> session_pb.ListDevicesResponse:
        devices = self.service.list_devices(caller())
        return session_pb.ListDevicesResponse(devices=[device_of(device) for device in devices])

    @override
    async def OpenSession(
        self, request: session_pb.OpenSessionRequest, context: Context
    ) -> session_pb.OpenSessionResponse:
        asked, request_id = session_request_of(request), request.request_id
        if not request.tell_after_s:
            opened = await self.service.open_session(caller(), asked, request_id=request_id)
            return opened_of(opened)
        answer = await self.service.ask_for_session(
            caller(), asked, request_id=request_id, tell_after_s=request.tell_after_s
        )
        if isinstance(answer, WaitingInfo):
            return session_pb.OpenSessionResponse(waiting=waiting_of(answer))
        return opened_of(answer)

    @override
    async def ListWaiting(
        self, request: session_pb.ListWaitingRequest, context: Context
    ) -> session_pb.ListWaitingResponse:
        waiting = self.service.list_waiting(caller())
        return session_pb.ListWaitingResponse(waiting=map(waiting_of, waiting))

    @override
    async def GetSession(
        self, request: session_pb.GetSessionRequest, context: Context
    ) -> session_pb.GetSessionResponse:
        found = self.service.get_session(caller(), request.session)
        return found_of(found)

    @override
    async def KeepAlive(
        self, request: session_pb.KeepAliveRequest, context: Context
    ) -> session_pb.KeepAliveResponse:
        return session_pb.KeepAliveResponse(
            lease_s=self.service.keep_alive(caller(), request.session)
        )

    @override
    async def CloseSession(
        self, request: session_pb.CloseSessionRequest, context: Context
    ) -> session_pb.CloseSessionResponse:
        await self.service.close_session(caller(), request.session)
        return session_pb.CloseSessionResponse()

    @override
    async def SetDeterministicLevel(
        self, request: session_pb.SetDeterministicLevelRequest, context: Context
    ) -> session_pb.SetDeterministicLevelResponse:
        level = deterministic_level_of(request.level)
        self.service.set_deterministic_level(caller(), request.session, level)
        return session_pb.SetDeterministicLevelResponse()

    @override
    async def GetTimeline(
        self, request: session_pb.GetTimelineRequest, context: Context
    ) -> session_pb.GetTimelineResponse:
        return await timeline_of(self.service.timeline(caller(), request.session))


@dataclass(frozen=True, slots=True)
class MemoryFace(MemoryServiceServicer):
    """Device memory, but for Write and Read: bulk.py has those."""

    service: Service

    @override
    async def Allocate(
        self, request: memory_pb.AllocateRequest, context: Context
    ) -> memory_pb.AllocateResponse:
        return memory_pb.AllocateResponse(**await _run(self.service, "allocate", request))

    @override
    async def Free(
        self, request: memory_pb.FreeRequest, context: Context
    ) -> memory_pb.FreeResponse:
        return memory_pb.FreeResponse(**await _run(self.service, "free", request))

    @override
    async def Fill(
        self, request: memory_pb.FillRequest, context: Context
    ) -> memory_pb.FillResponse:
        return memory_pb.FillResponse(**await _run(self.service, "fill", request))

    @override
    async def Copy(
        self, request: memory_pb.CopyRequest, context: Context
    ) -> memory_pb.CopyResponse:
        return memory_pb.CopyResponse(**await _run(self.service, "copy", request))


@dataclass(frozen=True, slots=True)
class OperatorFace(OperatorServiceServicer):
    """The operators, and the two phases of aclnn."""

    service: Service

    @override
    async def ListOperators(
        self, request: operator_pb.ListOperatorsRequest, context: Context
    ) -> operator_pb.ListOperatorsResponse:
        described = self.service.list_operators(caller(), request.operator)
        return operator_pb.ListOperatorsResponse(operators=map(description_of, described))

    @override
    async def GetWorkspaceSize(
        self, request: operator_pb.GetWorkspaceSizeRequest, context: Context
    ) -> operator_pb.GetWorkspaceSizeResponse:
        return operator_pb.GetWorkspaceSizeResponse(
            **await _run(self.service, "get_workspace_size", request)
        )

    @override
    async def Execute(
        self, request: operator_pb.ExecuteRequest, context: Context
    ) -> operator_pb.ExecuteResponse:
        return operator_pb.ExecuteResponse(**await _run(self.service, "execute", request))

    @override
    async def SetRepeatable(
        self, request: operator_pb.SetRepeatableRequest, context: Context
    ) -> operator_pb.SetRepeatableResponse:
        return operator_pb.SetRepeatableResponse(
            **await _run(self.service, "set_repeatable", request)
        )

    @override
    async def SetTensorBuffer(
        self, request: operator_pb.SetTensorBufferRequest, context: Context
    ) -> operator_pb.SetTensorBufferResponse:
        return operator_pb.SetTensorBufferResponse(
            **await _run(self.service, "set_tensor_buffer", request)
        )

    @override
    async def DestroyExecutor(
        self, request: operator_pb.DestroyExecutorRequest, context: Context
    ) -> operator_pb.DestroyExecutorResponse:
        return operator_pb.DestroyExecutorResponse(
            **await _run(self.service, "destroy_executor", request)
        )


@dataclass(frozen=True, slots=True)
class StreamFace(StreamServiceServicer):
    """Ordered queues of work."""

    service: Service

    @override
    async def CreateStream(
        self, request: stream_pb.CreateStreamRequest, context: Context
    ) -> stream_pb.CreateStreamResponse:
        return stream_pb.CreateStreamResponse(**await _run(self.service, "create_stream", request))

    @override
    async def DestroyStream(
        self, request: stream_pb.DestroyStreamRequest, context: Context
    ) -> stream_pb.DestroyStreamResponse:
        return stream_pb.DestroyStreamResponse(
            **await _run(self.service, "destroy_stream", request)
        )

    @override
    async def SynchronizeStream(
        self, request: stream_pb.SynchronizeStreamRequest, context: Context
    ) -> stream_pb.SynchronizeStreamResponse:
        return stream_pb.SynchronizeStreamResponse(
            **await _run(self.service, "synchronize_stream", request)
        )

    @override
    async def SetFailureMode(
        self, request: stream_pb.SetFailureModeRequest, context: Context
    ) -> stream_pb.SetFailureModeResponse:
        return stream_pb.SetFailureModeResponse(
            **await _run(self.service, "set_failure_mode", request)
        )

    @override
    async def AbortStream(
        self, request: stream_pb.AbortStreamRequest, context: Context
    ) -> stream_pb.AbortStreamResponse:
        return stream_pb.AbortStreamResponse(**await _run(self.service, "abort_stream", request))

    @override
    async def QueryStream(
        self, request: stream_pb.QueryStreamRequest, context: Context
    ) -> stream_pb.QueryStreamResponse:
        return stream_pb.QueryStreamResponse(**await _run(self.service, "query_stream", request))

    @override
    async def WatchStream(
        self, request: stream_pb.WatchStreamRequest, context: Context
    ) -> AsyncGenerator[stream_pb.WatchStreamResponse]:
        watching = self.service.watch_stream(
            caller(), request.session, request.stream, after=request.after
        )
        async with aclosing(watching):
            async for news in watching:
                if not isinstance(news, NoNews):  # gRPC has signs of life of its own
                    yield news_of(news)


@dataclass(frozen=True, slots=True)
class EventFace(EventServiceServicer):
    """Markers on streams."""

    service: Service

    @override
    async def CreateEvent(
        self, request: event_pb.CreateEventRequest, context: Context
    ) -> event_pb.CreateEventResponse:
        return event_pb.CreateEventResponse(**await _run(self.service, "create_event", request))

    @override
    async def DestroyEvent(
        self, request: event_pb.DestroyEventRequest, context: Context
    ) -> event_pb.DestroyEventResponse:
        return event_pb.DestroyEventResponse(**await _run(self.service, "destroy_event", request))

    @override
    async def RecordEvent(
        self, request: event_pb.RecordEventRequest, context: Context
    ) -> event_pb.RecordEventResponse:
        return event_pb.RecordEventResponse(**await _run(self.service, "record_event", request))

    @override
    async def StreamWaitEvent(
        self, request: event_pb.StreamWaitEventRequest, context: Context
    ) -> event_pb.StreamWaitEventResponse:
        return event_pb.StreamWaitEventResponse(
            **await _run(self.service, "stream_wait_event", request)
        )

    @override
    async def QueryEvent(
        self, request: event_pb.QueryEventRequest, context: Context
    ) -> event_pb.QueryEventResponse:
        return event_pb.QueryEventResponse(**await _run(self.service, "query_event", request))

    @override
    async def SynchronizeEvent(
        self, request: event_pb.SynchronizeEventRequest, context: Context
    ) -> event_pb.SynchronizeEventResponse:
        return event_pb.SynchronizeEventResponse(
            **await _run(self.service, "synchronize_event", request)
        )

    @override
    async def EventElapsedTime(
        self, request: event_pb.EventElapsedTimeRequest, context: Context
    ) -> event_pb.EventElapsedTimeResponse:
        return event_pb.EventElapsedTimeResponse(
            **await _run(self.service, "event_elapsed_time", request)
        )


@dataclass(frozen=True, slots=True)
class CommandFace(CommandServiceServicer):
    """Many commands in one round trip."""

    service: Service

    @override
    async def Submit(
        self, request: command_pb.SubmitRequest, context: Context
    ) -> command_pb.SubmitResponse:
        self.service.check_count(len(request.commands))
        named = await batch_of(
            request.commands, session=request.session, request_id=request.request_id
        )
        commands = [command for _, command in named]
        results = await self.service.submit(
            caller(), request.session, commands, request_id=request.request_id
        )
        response = command_pb.SubmitResponse()
        for (name, _), result in zip(named, results, strict=False):  # the batch may end early
            response.results.append(result_of(name, result))
        return response


@dataclass(frozen=True, slots=True)
class UsageFace(UsageServiceServicer):
    """What tenants are told of themselves."""

    service: Service

    @override
    async def GetUsage(
        self, request: usage_pb.GetUsageRequest, context: Context
    ) -> usage_pb.GetUsageResponse:
        return usage_pb.GetUsageResponse(**asdict(self.service.usage(caller())))
