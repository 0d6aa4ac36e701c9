"""Buffer contents: bytes up and down, and the Range header."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from opserve_server.calls import caller, malformed
from opserve_server.core.commands import Write
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.service import Service
from opserve_server.rest_api.bodies import OCTETS, content_length, while_connected
from opserve_server.rest_api.digests import CONTENT_DIGEST, checked, digest_of, is_wanted
from opserve_server.rest_api.errors import RangeNotSatisfiable
from opserve_server.rest_api.models import derived, parse_query, values_of

WriteQuery = derived(Write, "WriteQuery", without=("buffer", "data"))
_RANGE = re.compile(r"bytes=([0-9]{1,19})-([0-9]{0,19})")


async def write_content(service: Service, request: Request) -> Response:
    """Copies the body into a buffer as it comes; one with another digest is refused afterwards."""
    query = values_of(parse_query(WriteQuery, request))
    size_bytes = content_length(request)
    if size_bytes is None:
        raise malformed("Content-Length", given="nothing", allowed="the bytes to write")
    written = await service.write(
        caller(),
        request.path_params["session"],
        buffer=request.path_params["buffer"],
        size_bytes=size_bytes,
        chunks=checked(request),
        **query,
    )
    return JSONResponse({"size_bytes": written.size_bytes})


async def read_content(service: Service, request: Request) -> Response:
    """Streams the bytes that the Range header asks for, or all of them.

    Raises:
        InvalidArgument: 100000, the header has another form.
        RangeNotSatisfiable: The range leaves the buffer.
    """
    session, buffer = request.path_params["session"], request.path_params["buffer"]
    whole = service.buffer_size(caller(), session, buffer)
    first, last = _range(request, whole)
    size_bytes = last - first + 1
    chunks = service.read(caller(), session, buffer=buffer, offset=first, size_bytes=size_bytes)
    try:
        # The core refuses before the first chunk, so the status is still open here.
        head = await anext(chunks)
    except InvalidArgument as error:
        raise RangeNotSatisfiable(
            error.status,
            error.message,
            parameter=error.parameter,
            given=error.given,
            allowed=error.allowed,
        ) from error
    digest = {}
    if is_wanted(request):
        again = service.read(caller(), session, buffer=buffer, offset=first, size_bytes=size_bytes)
        digest = {CONTENT_DIGEST: await digest_of(again)}
    ranged = "range" in request.headers
    content_range = {"Content-Range": f"bytes {first}-{last}/{whole}"} if ranged else {}
    return StreamedAnswer(
        chunks,
        head=head,
        status_code=206 if ranged else 200,
        headers={"Content-Length": str(size_bytes)} | content_range | digest,
        media_type=OCTETS,
    )


def _range(request: Request, whole: int) -> tuple[int, int]:
    """The first and last byte that are asked for."""
    given = request.headers.get("range")
    if given is None:
        return 0, whole - 1
    matched = _RANGE.fullmatch(given)
    if matched is None:
        raise malformed("Range", given=given, allowed="bytes=FIRST-LAST or bytes=FIRST-")
    first, last = int(matched[1]), int(matched[2] or whole - 1)
    if first > last:
        raise malformed("Range", given=given, allowed=f"FIRST at most LAST, here {last}")
    return first, last


class StreamedAnswer(StreamingResponse):
    """An answer in pieces, whose generator ends with it, also when the client goes away.

    Args:
        pieces: What makes them; some may have been taken.
        head: Those.
        others: As StreamingResponse has them.
    """

    def __init__(self, pieces: AsyncGenerator[bytes], *, head: bytes = b"", **others: Any) -> None:  # noqa: ANN401  # Starlette's
        super().__init__(_joined(head, pieces), **others)
        self._pieces = pieces

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette's own would cancel the generator again and again while it cleans up.
        try:
            await while_connected(Request(scope, receive), self.stream_response(send))
        finally:
            await self._pieces.aclose()


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for chunk in rest:
        yield chunk
