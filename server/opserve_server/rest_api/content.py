"""Contents of buffers: upload, download and the Range header."""

import re
from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from opserve_server.calls import malformed
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.results import Written
from opserve_server.rest_api.bodies import OCTETS, content_length
from opserve_server.rest_api.dependencies import SessionCall
from opserve_server.rest_api.digests import CONTENT_DIGEST, checked, digest_of, is_wanted
from opserve_server.rest_api.errors import RangeNotSatisfiable
from opserve_server.rest_api.streaming import StreamedAnswer

_RANGE = re.compile(r"bytes=([0-9]{1,19})-([0-9]{0,19})")


async def write_content(
    session: SessionCall, request: Request, *, buffer: int, offset: int
) -> Written:
    """Copies the body into a buffer as it arrives; a wrong digest is rejected afterwards."""
    size_bytes = content_length(request)
    if size_bytes is None:
        raise malformed("Content-Length", given="nothing", allowed="the bytes to write")
    return await session.service.write(
        session.principal,
        session.name,
        buffer=buffer,
        size_bytes=size_bytes,
        chunks=checked(request),
        offset=offset,
    )


async def read_content(session: SessionCall, request: Request, *, buffer: int) -> Response:
    """Streams the bytes of the Range header, or all of them.

    Raises:
        InvalidArgument: 100000, the header has another form.
        RangeNotSatisfiable: The range leaves the buffer.
    """
    service, principal = session.service, session.principal
    whole = service.buffer_size(principal, session.name, buffer)
    first, last = _range(request, whole)
    size_bytes = last - first + 1
    take = partial(
        service.read, principal, session.name, buffer=buffer, offset=first, size_bytes=size_bytes
    )
    chunks = take()
    try:
        # The core raises before the first chunk, so the status can still be chosen here.
        head = await anext(chunks)
    except InvalidArgument as error:
        raise RangeNotSatisfiable(
            error.status,
            error.message,
            parameter=error.parameter,
            given=error.given,
            allowed=error.allowed,
        ) from error
    headers = {"Content-Length": str(size_bytes)}
    if is_wanted(request):
        headers[CONTENT_DIGEST] = await digest_of(take())
    ranged = "range" in request.headers
    if ranged:
        headers["Content-Range"] = f"bytes {first}-{last}/{whole}"
    status = HTTPStatus.PARTIAL_CONTENT if ranged else HTTPStatus.OK
    return StreamedAnswer(chunks, head=head, status_code=status, headers=headers, media_type=OCTETS)


def _range(request: Request, whole: int) -> tuple[int, int]:
    """The first and last requested byte."""
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
