"""Content-Digest of uploads and downloads."""

from base64 import b64encode
from hashlib import sha256

import httpx2
import pytest

from server.recording import SESSION, RecordingService

CONTENT = f"/v1/sessions/{SESSION}/buffers/3/content"


def digest(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


@pytest.mark.parametrize("others", ["{}", "md5=:AAAA:, {}", "{}, sha-512=:AAAA:"])
async def test_a_body_with_its_digest_is_written(
    client: httpx2.AsyncClient, service: RecordingService, others: str
) -> None:
    headers = {"Content-Digest": others.format(digest(b"abcde"))}
    assert (await client.put(CONTENT, content=b"abcde", headers=headers)).status_code == 200
    assert service.written == b"abcde"


async def test_a_body_with_another_digest_is_refused(client: httpx2.AsyncClient) -> None:
    headers = {"Content-Digest": digest(b"abcde")}
    response = await client.put(CONTENT, content=b"abcdf", headers=headers)
    assert response.status_code == 400
    problem = response.json()
    assert (problem["code"], problem["parameter"]) == (507052, "Content-Digest")
    assert digest(b"abcde") == f"sha-256=:{problem['given']}:"
    assert digest(b"abcdf") == f"sha-256=:{problem['allowed']}:"


async def test_a_digest_that_is_none_is_refused(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    headers = {"Content-Digest": "sha-256=:no base64!:"}
    response = await client.put(CONTENT, content=b"abc", headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, 100000)
    assert not service.written


async def test_digests_that_are_not_known_are_passed_over(client: httpx2.AsyncClient) -> None:
    headers = {"Content-Digest": "md5=:AAAA:"}
    assert (await client.put(CONTENT, content=b"abc", headers=headers)).status_code == 200


@pytest.mark.parametrize("wanted", ["sha-256=1", "md5=3, sha-256=10"])
async def test_the_digest_of_a_range_is_returned_on_request(
    client: httpx2.AsyncClient, service: RecordingService, wanted: str
) -> None:
    headers = {"Range": "bytes=8-2507", "Want-Content-Digest": wanted}
    response = await client.get(CONTENT, headers=headers)
    assert response.headers["content-digest"] == digest(service.content[8:2508])
    assert response.content == service.content[8:2508]


@pytest.mark.parametrize("wanted", ["", "sha-256=0", "md5=1"])
async def test_no_other_request_pays_for_a_digest(
    client: httpx2.AsyncClient, service: RecordingService, wanted: str
) -> None:
    response = await client.get(CONTENT, headers={"Want-Content-Digest": wanted})
    assert "content-digest" not in response.headers
    assert len(service.others) == 1
