"""Histories and timelines over gRPC."""

import grpc

from opserve.v1 import memory_service_pb2, session_service_pb2, stream_service_pb2
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve.v1.stream_service_pb2_grpc import StreamServiceStub
from server.recording import SESSION, RecordingService

DONE = stream_service_pb2.StreamEntry(
    sequence=4,
    number=5,
    kind=stream_service_pb2.WORK_KIND_EXECUTE,
    handle=9,
    operator="im2col_backward",
    queued_s=1.5,
    started_s=2.0,
    ended_s=2.25,
    kernel_s=0.125,
    outcome=stream_service_pb2.OUTCOME_DONE,
)
DROPPED = stream_service_pb2.StreamEntry(
    sequence=5,
    number=4,
    kind=stream_service_pb2.WORK_KIND_WAIT,
    handle=7,
    queued_s=1.0,
    ended_s=3.0,
    outcome=stream_service_pb2.OUTCOME_DROPPED,
    code=107023,
    reason="ACL_ERROR_RT_STREAM_ABORT",
)


async def test_a_watch_reports_entries_and_gaps_and_no_silence(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    stub = StreamServiceStub(channel)
    request = stream_service_pb2.WatchStreamRequest(session=SESSION, stream=2, after=7)
    response = stream_service_pb2.WatchStreamResponse
    assert [news async for news in stub.WatchStream(request)] == [
        response(lost=stream_service_pb2.LostEntries(first=1, last=3)),
        response(entry=DONE),
        response(entry=DROPPED),
    ]
    assert service.others == [("watch_stream", SESSION, 2, 7)]


async def test_a_timeline_is_answered_whole(
    channel: grpc.aio.Channel, service: RecordingService
) -> None:
    stub = SessionServiceStub(channel)
    answer = await stub.GetTimeline(session_service_pb2.GetTimelineRequest(session=SESSION))
    (stream,) = answer.streams
    assert (stream.stream, list(stream.entries)) == (0, [DONE, DROPPED])
    assert list(answer.copies) == [
        memory_service_pb2.CopyEntry(
            kind=memory_service_pb2.COPY_KIND_READ,
            buffer=3,
            size_bytes=64,
            started_s=1.0,
            ended_s=1.125,
        )
    ]
    assert answer.kernel_variant == "fma16"
    assert service.others == [("timeline", SESSION)]
