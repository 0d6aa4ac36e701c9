"""Calls of the Connect API: receive the message, call the handler of the gRPC API, and answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from opserve_server.calls import malformed
from opserve_server.connect_api.envelopes import (
    PREFIX_BYTES,
    end_of_stream,
    envelope,
    only_message,
)
from opserve_server.connect_api.errors import IDENTITY, UnsupportedCompression, too_late
from opserve_server.core.observations import CALL, Call
from opserve_server.open_calls import CallSlot
from opserve_server.rest_api.bodies import ClientWatch, bounded

_OK = "ok"
"""Outcome of a call without an error, for observers."""
_VERSION, _TIMEOUT = "Connect-Protocol-Version", "Connect-Timeout-Ms"
_UNARY_ENCODING, _STREAM_ENCODING = "Content-Encoding", "Connect-Content-Encoding"
_TIMEOUT_DIGITS = 10
_MS_PER_S = 1e3
AnswerT = TypeVar("AnswerT")
Watch = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """An RPC with messages in one form.

    Attributes:
        behaviour: Its handler.
        read: Parses a request.
        write: Serialises an answer.
        media_type: The form.
        message_bytes_limit: Maximum size of a request, bytes.
    """

    behaviour: Callable[[Any, None], Any]
    read: Callable[[bytes], Awaitable[Message]]
    write: Callable[[Any], Awaitable[bytes]]
    media_type: str
    message_bytes_limit: int


async def serve_unary(method: Method, scope: HttpScope, receive: Receive, send: Send) -> None:
    """Serves a call with one request and one answer."""
    call, slot = _call(), _slot_of(scope)

    async def work(watch: Watch) -> bytes:
        _check_headers(call.headers, _UNARY_ENCODING)
        limit = method.message_bytes_limit
        message = await method.read(await _received(slot, scope, receive, limit))
        watch()
        body = await method.write(await method.behaviour(message, None))
        slot.keep(len(body))
        return body

    body = await _within_deadline(work, call, receive)
    call.outcome = _OK
    await send(_start(method, (b"content-length", b"%d" % len(body))))
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def serve_stream(method: Method, scope: HttpScope, receive: Receive, send: Send) -> None:
    """Serves a call with one request and a stream of answers."""
    call, slot = _call(), _slot_of(scope)

    async def work(watch: Watch) -> None:
        _check_headers(call.headers, _STREAM_ENCODING)
        limit = method.message_bytes_limit + PREFIX_BYTES
        # No name for the bytes: they would stay beside the message, which is charged once.
        message = await method.read(only_message(await _received(slot, scope, receive, limit)))
        watch()
        call.outcome = _OK
        await send(_start(method))
        async with aclosing(method.behaviour(message, None)) as answers:
            async for answer in answers:
                part = envelope(await method.write(answer))
                await send({"type": "http.response.body", "body": part, "more_body": True})

    await _within_deadline(work, call, receive)
    await send({"type": "http.response.body", "body": end_of_stream({}), "more_body": False})


def _call() -> Call:
    call = CALL.get()
    assert call is not None, "the middleware sets it"
    return call


def _slot_of(scope: HttpScope) -> CallSlot:
    slot: CallSlot = scope["state"]["slot"]
    return slot


async def _received(slot: CallSlot, scope: HttpScope, receive: Receive, limit: int) -> bytes:
    """The body; charged as the largest allowed one while it arrives, then by its size."""
    body = await slot.received(partial(_body, Request(scope, receive), limit))
    slot.keep(len(body))
    return body


async def _body(request: Request, limit: int) -> bytes:
    return b"".join([chunk async for chunk in bounded(request, limit=limit)])


def _check_headers(headers: Mapping[str, str | bytes], encoding: str) -> None:
    version = headers.get(_VERSION.lower(), "1")
    if version != "1":
        raise malformed(_VERSION, given=version, allowed="1")
    compression = str(headers.get(encoding.lower(), "")) or IDENTITY
    if compression != IDENTITY:
        raise UnsupportedCompression(encoding, given=compression)


def _start(method: Method, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    form = (b"content-type", method.media_type.encode())
    return {"type": "http.response.start", "status": 200, "headers": [form, *headers]}


async def _within_deadline(
    work: Callable[[Watch], Awaitable[AnswerT]], call: Call, receive: Receive
) -> AnswerT:
    """The result of work, which is cancelled at its deadline or when its client disconnects.

    Args:
        work: Makes the result. It gets a function to call when the body is complete, from which on
            `receive` reports the end of the connection.
        call: The call.
        receive: ASGI's.

    Raises:
        WaitTimedOut: 107020, the deadline passed.
        ClientDisconnect: The client disconnected.
    """
    limit_ms = _limit_ms(call.headers)
    until = asyncio.timeout(None if limit_ms is None else limit_ms / _MS_PER_S)
    client = ClientWatch(receive, until)
    try:
        async with until:
            return await work(client.watch)
    except TimeoutError:
        if not until.expired():
            raise
        if client.gone or limit_ms is None:
            call.outcome = ""
            raise ClientDisconnect from None
        raise too_late(_TIMEOUT, limit_ms=limit_ms) from None
    finally:
        client.forget()


def _limit_ms(headers: Mapping[str, str | bytes]) -> int | None:
    given = headers.get(_TIMEOUT.lower())
    if given is None:
        return None
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) <= _TIMEOUT_DIGITS):
        allowed = f"milliseconds, at most {_TIMEOUT_DIGITS} digits"
        raise malformed(_TIMEOUT, given=text, allowed=allowed)
    return int(text)
