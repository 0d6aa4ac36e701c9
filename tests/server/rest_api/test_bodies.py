"""Bodies of calls over REST, while they arrive."""

from collections.abc import AsyncIterator
from typing import Any, NoReturn

import httpx2
import pytest

from opserve_server.calls import malformed
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource
from opserve_server.inference.infer import Inference
from server.guards import CALLS
from server.recording import SESSION, RecordingService
from server.rest_api.conftest import BODY_LIMIT, Api


@pytest.mark.parametrize(
    ("path", "status"),
    [(f"/v1/sessions/{SESSION}/streams", 201), ("/v2/models/aclnnIm2col/infer", 400)],
)
async def test_a_json_body_counts_among_the_bytes_in_flight_of_its_tenant(
    client: httpx2.AsyncClient,
    api: Api,
    service: RecordingService,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    status: int,
) -> None:
    document, used, run = b"{}".ljust(BODY_LIMIT), list[float](), service.run

    def note() -> None:
        used.append(api.accounts.of(LOCAL.tenant).use(Resource.BYTES_IN_FLIGHT))

    async def chunks() -> AsyncIterator[bytes]:
        note()
        yield document[:1000]
        note()
        yield document[1000:]

    async def noting(*given: Any, **named: Any) -> object:
        note()
        return await run(*given, **named)

    async def refusing(*_: object) -> NoReturn:
        note()
        raise malformed("inputs", given="none", allowed="some")

    monkeypatch.setattr(service, "run", noting)
    monkeypatch.setattr(Inference, "infer", refusing)
    headers = {"Content-Type": "application/json"}
    response = await client.post(path, content=chunks(), headers=headers)
    assert response.status_code == status
    note()
    arriving = used[0]
    assert arriving >= CALLS.message_bytes
    assert used == [arriving, arriving, BODY_LIMIT, 0]
