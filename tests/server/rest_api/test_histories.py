"""Histories as server-sent events, and timelines."""

import json

import httpx2
import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import HandleNotFound
from server.recording import SESSION, RecordingService

HISTORY = f"/v1/sessions/{SESSION}/streams/2/history"
DONE = {
    "sequence": 4,
    "number": 5,
    "kind": "EXECUTE",
    "handle": 9,
    "operator": "im2col_backward",
    "queued_s": 1.5,
    "started_s": 2.0,
    "ended_s": 2.25,
    "kernel_s": 0.125,
    "outcome": "DONE",
    "code": 0,
    "reason": "",
}
DROPPED = {
    "sequence": 5,
    "number": 4,
    "kind": "WAIT",
    "handle": 7,
    "operator": "",
    "queued_s": 1.0,
    "started_s": None,
    "ended_s": 3.0,
    "kernel_s": None,
    "outcome": "DROPPED",
    "code": 107023,
    "reason": "ACL_ERROR_RT_STREAM_ABORT",
}


async def test_a_history_is_server_sent_events_with_signs_of_life(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get(HISTORY, params={"after": 7})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    begin, lost, silence, done, dropped, end = response.text.split("\n\n")
    assert (begin, silence, end) == (":", ":", "")
    assert lost == 'id: 3\nevent: lost\ndata: {"first":1,"last":3}'
    for event, number, entry in ((done, 4, DONE), (dropped, 5, DROPPED)):
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        assert (fields["id"], fields["event"]) == (str(number), "entry")
        assert json.loads(fields["data"]) == entry
    assert service.others == [("watch_stream", SESSION, 2, 7)]


async def test_the_last_event_id_resumes_and_counts_more_than_the_query(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    await client.get(HISTORY, params={"after": 7}, headers={"Last-Event-ID": "41"})
    assert service.others == [("watch_stream", SESSION, 2, 41)]


@pytest.mark.parametrize("given", ["-1", "x", "", "9" * 19, "4.0"])
async def test_another_event_id_is_refused(given: str, client: httpx2.AsyncClient) -> None:
    response = await client.get(HISTORY, headers={"Last-Event-ID": given})
    assert response.status_code == 400
    assert response.json()["parameter"] == "Last-Event-ID"


async def test_a_negative_number_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.get(HISTORY, params={"after": -1})
    assert (response.status_code, response.json()["parameter"]) == (400, "after")


async def test_a_missing_stream_is_refused_before_the_first_event(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = HandleNotFound("stream", 2, allowed="a live stream")
    response = await client.get(HISTORY)
    assert response.status_code == 404
    assert response.json()["code"] == Status.ACL_ERROR_RT_INVALID_HANDLE.value


async def test_a_timeline_is_answered_whole(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get(f"/v1/sessions/{SESSION}/timeline")
    copy = {"kind": "READ", "buffer": 3, "size_bytes": 64, "started_s": 1.0, "ended_s": 1.125}
    assert response.json() == {
        "streams": [{"stream": 0, "entries": [DONE, DROPPED]}],
        "copies": [copy],
        "kernel_variant": "fma16",
    }
    assert service.others == [("timeline", SESSION)]
