"""A client of the application that reads no further than the test lets it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2

from opserve_server.rest_api.app import RestApi


class Post:
    """A multipart request under way.

    Args:
        app: The application.
        path: Of the route.
        files: Parts of the body.
        headers: Beside those of the body.

    Attributes:
        status: Of the answer; None before it arrives.
        pieces: Of its body, as they were taken.
    """

    def __init__(
        self,
        app: RestApi,
        path: str,
        files: Mapping[str, bytes],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        request = httpx2.Request(
            "POST", f"http://localhost{path}", files=dict(files), headers=dict(headers or {})
        )
        self._body = request.read()
        self._left, self._taking = asyncio.Event(), asyncio.Event()
        self._began = asyncio.Event()
        self.status: int | None = None
        self.pieces: list[bytes] = []
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        self.ended = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def began(self) -> None:
        """Returns when the first piece of the body is there."""
        ending = asyncio.ensure_future(self._began.wait())
        await asyncio.wait([ending, self.ended], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()

    async def read(self) -> bytes:
        """Reads to the end."""
        self._taking.set()
        await self.ended
        return b"".join(self.pieces)

    async def leave(self) -> None:
        """Hangs up; returns when the service is done with the call."""
        self._left.set()
        await self.ended

    def problem(self) -> Any:
        """The answer's JSON."""
        return json.loads(b"".join(self.pieces))

    async def _receive(self) -> Any:
        if self._body is not None:
            body, self._body = self._body, None  # type: ignore[assignment]  # sent once
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["body"]:
            self.pieces.append(message["body"])
            self._began.set()
            if message.get("more_body"):
                await self._taking.wait()
