"""Answers in pieces."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from opserve_server.rest_api.bodies import while_connected


class StreamedAnswer(StreamingResponse):
    """An answer in pieces, whose generator ends with it, also when the client disconnects.

    Args:
        pieces: Generator of the pieces, some of which may have been taken.
        head: The pieces already taken.
        others: Arguments of StreamingResponse.
    """

    def __init__(self, pieces: AsyncGenerator[bytes], *, head: bytes = b"", **others: Any) -> None:  # noqa: ANN401  # Starlette's
        super().__init__(_joined(head, pieces), **others)
        self._pieces = pieces

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette's own would cancel the generator repeatedly while it cleans up.
        try:
            await while_connected(Request(scope, receive), self.stream_response(send))
        finally:
            await self._pieces.aclose()


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for chunk in rest:
        yield chunk
