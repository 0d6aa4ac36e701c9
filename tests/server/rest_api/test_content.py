"""Buffer contents up and down."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument
from server.recording import SESSION, RecordingService

CONTENT = f"/v1/sessions/{SESSION}/buffers/3/content"


async def test_a_put_streams_into_the_core(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.put(CONTENT, params={"offset": 8}, content=b"abcde")
    assert response.json() == {"size_bytes": 5}
    assert service.others == [("write", SESSION, 3, 8, 5)]
    assert service.written == b"abcde"


async def test_a_put_starts_at_0_by_default(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    await client.put(CONTENT, content=b"abcde")
    assert service.others == [("write", SESSION, 3, 0, 5)]


async def test_a_put_may_be_larger_than_a_json_body(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    assert (await client.put(CONTENT, content=bytes(100_000))).status_code == 200
    assert len(service.written) == 100_000


async def test_a_put_of_unknown_size_is_refused(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"abc"

    response = await client.put(CONTENT, content=chunks())
    assert response.status_code == 400
    assert response.json()["parameter"] == "Content-Length"
    assert not service.others


@pytest.mark.parametrize(
    "query", ["offset=x", "offset=1.5", "offest=3", "offset=99999999999999999999"]
)
async def test_a_query_of_another_form_is_refused(query: str, client: httpx2.AsyncClient) -> None:
    response = await client.put(f"{CONTENT}?{query}", content=b"abc")
    assert response.status_code == 400
    assert response.json()["code"] == 100000
    assert response.json()["parameter"] == query.partition("=")[0]


async def test_a_get_streams_the_range(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get(CONTENT, headers={"Range": "bytes=8-2507"})
    assert response.status_code == 206
    assert response.content == service.content[8:2508]
    assert response.headers["content-range"] == "bytes 8-2507/4096"
    assert response.headers["content-length"] == "2500"
    assert response.headers["content-type"] == "application/octet-stream"
    assert service.others == [("read", SESSION, 3, 8, 2500)]


async def test_a_get_without_a_range_streams_everything(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get(CONTENT)
    assert response.status_code == 200
    assert response.content == service.content
    assert "content-range" not in response.headers


async def test_a_range_may_be_open(client: httpx2.AsyncClient, service: RecordingService) -> None:
    response = await client.get(CONTENT, headers={"Range": "bytes=4000-"})
    assert response.status_code == 206
    assert response.content == service.content[4000:]


@pytest.mark.parametrize(
    "given", ["", "bytes=5-4", "bytes=-4", "bytes=5000-", "bytes=0-1,3-4", "rows=0-1", "bytes=0-x"]
)
async def test_a_range_of_another_form_is_refused(
    given: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.get(CONTENT, headers={"Range": given})
    assert response.status_code == 400
    assert response.json()["parameter"] == "Range"
    assert not service.others


async def test_a_range_that_leaves_the_buffer_is_416(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID, "size_bytes: given 9", parameter="size_bytes", given=9
    )
    response = await client.get(CONTENT, headers={"Range": "bytes=0-8"})
    assert response.status_code == 416
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.json()["code"], response.json()["status"]) == (107000, 416)
    assert response.json()["detail"] == "size_bytes: given 9"
