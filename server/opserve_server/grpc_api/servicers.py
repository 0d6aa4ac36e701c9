"""The gRPC services: each method converts, calls the core, and converts back."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from typing_extensions import override

from opserve.v1 import command_service_pb2 as command_pb
from opserve.v1 import event_service_pb2 as event_pb
from opserve.v1 import memory_service_pb2 as memory_pb
from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1 import session_service_pb2 as session_pb
from opserve.v1 import stream_service_pb2 as stream_pb
from opserve.v1 import usage_service_pb2 as usage_pb
from opserve.v1.command_service_pb2_grpc import CommandServiceServicer
from opserve.v1.operator_service_pb2_grpc import OperatorServiceServicer
from opserve.v1.session_service_pb2_grpc import SessionServiceServicer
from opserve.v1.stream_service_pb2_grpc import StreamServiceServicer
from opserve.v1.usage_service_pb2_grpc import UsageServiceServicer
from opserve_server.calls import caller
from opserve_server.core.history import NoNews
from opserve_server.core.infos import WaitingInfo
from opserve_server.core.service import Service
from opserve_server.grpc_api.convert import (
    COMMAND_REQUESTS,
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
_COMMAND_FILES = (memory_pb, operator_pb, stream_pb, event_pb)


def command_handlers(
    service: Service,
) -> "Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]":
    """The methods that carry out one command each, by service: all of the oneof of `Command`.

    Memory's Write and Read are streams here; bulk.py has them.
    """
    names = {request.DESCRIPTOR.full_name: name for name, request in COMMAND_REQUESTS.items()}
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
class OperatorFace(OperatorServiceServicer):
    """What the operators are."""

    service: Service

    @override
    async def ListOperators(
        self, request: operator_pb.ListOperatorsRequest, context: Context
    ) -> operator_pb.ListOperatorsResponse:
        described = self.service.list_operators(caller(), request.operator)
        return operator_pb.ListOperatorsResponse(operators=map(description_of, described))


@dataclass(frozen=True, slots=True)
class StreamFace(StreamServiceServicer):
    """What comes of the work on streams."""

    service: Service

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
