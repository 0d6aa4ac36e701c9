"""The gRPC services: each method converts, calls the core, and converts back."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

import grpc
from typing_extensions import override

from opserve.v1 import command_service_pb2 as command_pb
from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1 import session_service_pb2 as session_pb
from opserve.v1 import stream_service_pb2 as stream_pb
from opserve.v1 import usage_service_pb2 as usage_pb
from opserve.v1.command_service_pb2_grpc import CommandServiceServicer
from opserve.v1.operator_service_pb2_grpc import OperatorServiceServicer
from opserve.v1.session_service_pb2_grpc import SessionServiceServicer
from opserve.v1.stream_service_pb2_grpc import StreamServiceServicer
from opserve.v1.usage_service_pb2_grpc import UsageServiceServicer
from opserve_server.calls import caller, close_session
from opserve_server.core.history import NoNews
from opserve_server.core.info import WaitingInfo
from opserve_server.core.leases import leased
from opserve_server.core.service import Service
from opserve_server.grpc_api.convert import (
    batch_of,
    computed_of,
    deterministic_level_of,
    result_of,
    whole_call_of,
)
from opserve_server.grpc_api.descriptions import description_of
from opserve_server.grpc_api.histories import news_of, timeline_of
from opserve_server.grpc_api.sessions import (
    device_of,
    found_of,
    opened_of,
    services_of,
    session_request_of,
    waiting_of,
)
from opserve_server.version import VERSION

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class SessionServicer(SessionServiceServicer):
    """Leases on devices."""

    service: Service

    @override
    async def ListDevices(
        self, request: session_pb.ListDevicesRequest, context: Context
    ) -> session_pb.ListDevicesResponse:
        devices = self.service.list_farm(caller())
        listed = [device_of(device) for device in devices]
        return session_pb.ListDevicesResponse(devices=listed, version=VERSION)

    @override
    async def OpenSession(
        self, request: session_pb.OpenSessionRequest, context: Context
    ) -> session_pb.OpenSessionResponse:
        session_request, request_id = session_request_of(request), request.request_id
        if not request.tell_after_s:
            opened = await self.service.open_session(
                caller(), session_request, request_id=request_id
            )
            return opened_of(opened)
        answer = await self.service.request_session(
            caller(), session_request, request_id=request_id, tell_after_s=request.tell_after_s
        )
        if isinstance(answer, WaitingInfo):
            services = services_of(self.service.services)
            return session_pb.OpenSessionResponse(waiting=waiting_of(answer), services=services)
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
        await close_session(self.service, request.session)
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
class OperatorServicer(OperatorServiceServicer):
    """Descriptions of operators, and whole calls."""

    service: Service

    @override
    async def ListOperators(
        self, request: operator_pb.ListOperatorsRequest, context: Context
    ) -> operator_pb.ListOperatorsResponse:
        described = self.service.list_operators(caller(), request.operator)
        return operator_pb.ListOperatorsResponse(operators=map(description_of, described))

    @override
    async def Run(
        self, request: operator_pb.RunRequest, context: Context
    ) -> operator_pb.RunResponse:
        call = whole_call_of(request)
        if not request.HasField("open"):
            return computed_of(await self.service.compute(caller(), request.session, call))
        async with leased(self.service, caller(), session_request_of(request.open)) as lease:
            return computed_of(await self.service.compute(caller(), lease.session, call))


@dataclass(frozen=True, slots=True)
class StreamServicer(StreamServiceServicer):
    """Outcomes of work on streams."""

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
                if not isinstance(news, NoNews):  # gRPC has keep-alives of its own
                    yield news_of(news)


@dataclass(frozen=True, slots=True)
class CommandServicer(CommandServiceServicer):
    """Several commands in one round trip."""

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
class UsageServicer(UsageServiceServicer):
    """Usage and quota of the caller's tenant."""

    service: Service

    @override
    async def GetUsage(
        self, request: usage_pb.GetUsageRequest, context: Context
    ) -> usage_pb.GetUsageResponse:
        return usage_pb.GetUsageResponse(**asdict(self.service.usage(caller())))
