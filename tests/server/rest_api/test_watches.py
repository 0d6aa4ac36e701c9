"""The state of the service as server-sent events, and series."""

import httpx2
import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import LimitExceeded
from server.recording import CHANGES, RecordingService


async def test_a_watch_is_server_sent_events_with_signs_of_life(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get("/v1/watch")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    first, silence, second, end = response.text.split("\n\n")
    assert (silence, end) == (":", "")
    for event, change in zip((first, second), CHANGES, strict=True):
        assert event == f"id: {change.id}\nevent: change\ndata: {change.data}"
    assert service.others == [("watch",)]


async def test_a_watch_too_many_is_refused_before_the_first_event(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT, parameter="watches", given=4, allowed=3
    )
    response = await client.get("/v1/watch")
    assert (response.status_code, response.json()["parameter"]) == (429, "watches")


async def test_series_are_points_by_name_and_label(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    names = "device_sessions,device_busy_share"
    response = await client.get("/v1/series", params={"name": names, "last_s": 60})
    assert response.json() == {
        "step_s": 1.0,
        "end": "2026-11-24T04:00:00+00:00",
        "series": {"device_sessions": {"ascend910b-0": [1.0, 2.5]}},
    }
    await client.get("/v1/series")
    assert service.others == [("get_series", names, 60), ("get_series", "", 0)]


@pytest.mark.parametrize("query", ["last_s=x", "last_s=1.5", "names=all"])
async def test_a_malformed_query_is_refused(query: str, client: httpx2.AsyncClient) -> None:
    assert (await client.get(f"/v1/series?{query}")).status_code == 400
