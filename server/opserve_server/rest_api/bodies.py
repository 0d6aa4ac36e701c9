"""Request bodies, read no further than their limits."""

from collections.abc import AsyncGenerator

from starlette.requests import Request

from opserve_server.calls import malformed
from opserve_server.rest_api.errors import BodyTooLarge

JSON = "application/json"
MULTIPART = "multipart/form-data"
OCTETS = "application/octet-stream"


async def read_json(request: Request, *, limit: int) -> bytes:
    """The bytes of a JSON body; empty where there is none.

    Raises:
        InvalidArgument: 100000, it is said to be something else than JSON.
        BodyTooLarge: 207012, it is larger than `limit` bytes.
    """
    body = bytearray()
    async for chunk in bounded(request, limit=limit):
        body += chunk
    # A browser sends JSON to another site only with that site's leave, other forms without.
    if body and media_type(request) != JSON:
        raise malformed("Content-Type", given=media_type(request), allowed=JSON)
    return bytes(body)


async def bounded(request: Request, *, limit: int) -> AsyncGenerator[bytes]:
    """A body in pieces, however it is sent.

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


def content_length(request: Request) -> int | None:
    """The bytes that a body announces; None where it comes in chunks of unknown number."""
    given = request.headers.get("content-length")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit()):
        raise malformed("Content-Length", given=given, allowed="a number of bytes")
    return int(given)


def media_type(request: Request) -> str:
    """What a body is said to be, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
