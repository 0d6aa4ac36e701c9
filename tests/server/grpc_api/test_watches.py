"""The state of the service and series over gRPC."""

import json

import grpc

from opserve.v1.watch_service_pb2 import GetSeriesRequest, WatchRequest
from opserve.v1.watch_service_pb2_grpc import WatchServiceStub
from server.recording import CHANGES, POINTS, RecordingService


async def test_a_watch_has_the_events_of_rest_and_no_signs_of_life(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    found = [one async for one in WatchServiceStub(channel).Watch(WatchRequest())]
    assert [(one.id, one.change) for one in found] == [(one.id, one.data) for one in CHANGES]
    assert service.others == [("watch",)]


async def test_series_are_those_of_rest(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    request = GetSeriesRequest(name="device_sessions", last_s=60)
    answer = await WatchServiceStub(channel).GetSeries(request)
    assert (answer.step_s, answer.end) == (POINTS.step_s, POINTS.end)
    assert json.loads(answer.series) == POINTS.series
    assert service.others == [("get_series", "device_sessions", 60)]
