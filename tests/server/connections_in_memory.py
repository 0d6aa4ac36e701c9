"""The client's HTTP connections to an application in this process."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from typing_extensions import override

from opserve_client.http_async import HttpConnections, HttpStream
from opserve_client.wire.http_messages import Request, origin_of


class StreamInMemory(HttpStream):
    """An answer, which arrives in one piece.

    Args:
        answer: The answer.
    """

    def __init__(self, answer: httpx2.Response) -> None:
        self.status = answer.status_code
        self._content = answer.content

    @override
    async def pieces(self) -> AsyncIterator[bytes]:
        yield self._content


class ConnectionsInMemory(HttpConnections):
    """Connections to an application.

    Args:
        http: A client of the application.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        super().__init__(origin_of("http://localhost"), None)
        self._http = http

    @override
    async def call(self, request: Request, *, timeout_s: float) -> tuple[int, bytes]:
        answer = await self._answer(request)
        return answer.status_code, answer.content

    @override
    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout_s: float | None
    ) -> AsyncGenerator[HttpStream]:
        yield StreamInMemory(await self._answer(request))

    @override
    async def aclose(self) -> None:
        await self._http.aclose()

    async def _answer(self, request: Request) -> httpx2.Response:
        content = bytes(request.body)
        return await self._http.request(
            request.verb, request.path, headers=list(request.fields), content=content
        )
