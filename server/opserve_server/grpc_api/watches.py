"""Watches of the service's state, and series."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc
import pydantic_core
from typing_extensions import override

from opserve.v1.watch_service_pb2 import (
    GetSeriesRequest,
    GetSeriesResponse,
    WatchRequest,
    WatchResponse,
)
from opserve.v1.watch_service_pb2_grpc import WatchServiceServicer
from opserve_server.calls import caller
from opserve_server.core.service import Service
from opserve_server.core.watches import Change

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class WatchServicer(WatchServiceServicer):
    """State of the service."""

    service: Service

    @override
    async def Watch(self, request: WatchRequest, context: Context) -> AsyncGenerator[WatchResponse]:
        async with aclosing(self.service.watch(caller())) as watching:
            async for news in watching:
                if isinstance(news, Change):  # gRPC has keep-alives of its own
                    yield WatchResponse(id=news.id, change=news.data)

    @override
    async def GetSeries(self, request: GetSeriesRequest, context: Context) -> GetSeriesResponse:
        points = self.service.get_series(caller(), request.name, last_s=request.last_s)
        series = pydantic_core.to_json(points.series).decode()
        return GetSeriesResponse(step_s=points.step_s, end=points.end, series=series)
