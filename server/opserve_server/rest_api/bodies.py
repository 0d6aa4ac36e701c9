"""Request bodies, received up to their limits only."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from opserve_server.calls import BodyTooLarge, malformed

JSON = "application/json"
MULTIPART = "multipart/form-data"
OCTETS = "application/octet-stream"
BYTES: Mapping[str, str] = {"type": "string", "format": "binary"}
"""Schema of bytes."""
_UNWATCHED_S = 0.05
"""Seconds from which a call is cancelled when its client disconnects: a task for each short call
would cost more than its handler."""
AnswerT = TypeVar("AnswerT")


def form_document(args: type[BaseModel]) -> dict[str, Any]:
    """The schema of a multipart form: a part `args` of this model, and a part of arrays."""
    properties = {
        "args": {
            "$ref": f"#/components/schemas/{args.__name__}",
            "description": "Everything but the arrays, JSON.",
        },
        "tensors": {**BYTES, "description": "The arrays, an .npz file."},
    }
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"content": {MULTIPART: {"schema": schema}}}}


async def read_json(request: Request, *, limit: int) -> bytes:
    """The bytes of a JSON body; empty without one.

    Raises:
        InvalidArgument: 100000, its media type is not JSON.
        BodyTooLarge: 207012, it is larger than `limit` bytes.
    """
    body = bytearray()
    async for chunk in bounded(request, limit=limit):
        body += chunk
    # A browser sends JSON to another site only with that site's permission, other forms without.
    if body and media_type(request) != JSON:
        raise malformed("Content-Type", given=media_type(request), allowed=JSON)
    return bytes(body)


async def bounded(request: Request, *, limit: int) -> AsyncGenerator[bytes]:
    """A body in pieces, with or without Content-Length.

    Raises:
        BodyTooLarge: 207012, it is larger than `limit` bytes.
    """
    if (content_length(request) or 0) > limit:
        raise BodyTooLarge("body", limit=limit)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge("body", limit=limit)
        yield chunk


class ClientWatch:
    """Expires a timeout when the client of a call disconnects.

    Args:
        receive: ASGI's; it must have returned the whole body before `watch`.
        until: The timeout.

    Attributes:
        gone: Whether the client has disconnected.
    """

    def __init__(self, receive: Receive, until: asyncio.Timeout) -> None:
        self.gone = False
        self._receive = receive
        self._until = until
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begins to watch, in a while."""
        self._timer = asyncio.get_running_loop().call_later(_UNWATCHED_S, self._begin)

    def forget(self) -> None:
        """Stops watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _begin(self) -> None:
        self._watching = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._until.reschedule(0.0)


async def while_connected(request: Request, work: Awaitable[AnswerT]) -> AnswerT:
    """The answer of work that may wait; cancels it when the client disconnects.

    Raises:
        ClientDisconnect: The client disconnected.
    """
    until = asyncio.timeout(None)
    client = ClientWatch(request.receive, until)
    client.watch()
    try:
        async with until:
            return await work
    except TimeoutError:
        if client.gone and until.expired():
            raise ClientDisconnect from None
        raise
    finally:
        client.forget()


def content_length(request: Request) -> int | None:
    """The announced size of a body, bytes; None for a chunked body."""
    given = request.headers.get("content-length")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit()):
        raise malformed("Content-Length", given=given, allowed="a number of bytes")
    return int(given)


def media_type(request: Request) -> str:
    """The media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
