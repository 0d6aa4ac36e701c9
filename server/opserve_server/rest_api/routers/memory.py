"""Device memory: buffers and their contents."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from opserve_server.core.commands import SCOPE
from opserve_server.core.memory_commands import Allocate, Copy, Fill, Free, Write
from opserve_server.core.results import Allocated, Done, Written
from opserve_server.rest_api.bodies import BYTES, OCTETS
from opserve_server.rest_api.content import read_content, write_content
from opserve_server.rest_api.dependencies import (
    Handle,
    InSession,
    from_body,
    from_query,
    requires,
)
from opserve_server.rest_api.digests import CONTENT_DIGEST, WANT_CONTENT_DIGEST
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.route import ServiceRoute

_DIGEST = Header(alias=CONTENT_DIGEST, description="SHA-256 of the body (RFC 9530), checked.")
_RANGE = Header(alias="Range", description="bytes=FIRST-LAST or bytes=FIRST-; absent: all bytes.")
_WANTED = Header(
    alias=WANT_CONTENT_DIGEST, description="sha-256=1 for a Content-Digest (RFC 9530)."
)
router = APIRouter(
    prefix="/v1/sessions/{session}/buffers",
    tags=["memory"],
    route_class=ServiceRoute,
    dependencies=[requires(SCOPE)],
    responses=problems(404, 409),
)


@router.post("", name="Allocate", status_code=201, responses=problems(507))
async def allocate(
    session: InSession, command: Annotated[Allocate, from_body(Allocate)]
) -> Allocated:
    """Makes a buffer of size_bytes, or the workspace of an executor."""
    return await session.run(command, Allocated)


@router.delete("/{buffer:int}", name="Free", status_code=204)
async def free(session: InSession, command: Annotated[Free, from_body(Free, "buffer")]) -> None:
    """Ends a buffer."""
    await session.run(command, Done)


@router.post("/{buffer:int}:fill", name="Fill", status_code=204)
async def fill(session: InSession, command: Annotated[Fill, from_body(Fill, "buffer")]) -> None:
    """Sets size_bytes bytes from offset to a value of 0 to 255."""
    await session.run(command, Done)


@router.post("/{destination:int}:copy", name="Copy", status_code=204)
async def copy(
    session: InSession, command: Annotated[Copy, from_body(Copy, "destination")]
) -> None:
    """Copies bytes between buffers of the session."""
    await session.run(command, Done)


@router.put(
    "/{buffer:int}/content",
    name="Write",
    responses=problems(411, 413),
    openapi_extra={"requestBody": {"content": {OCTETS: {"schema": BYTES}}}},
)
async def write(
    session: InSession,
    request: Request,
    command: Annotated[Write, from_query(Write, "buffer", without=("data",))],
    _: Annotated[str | None, _DIGEST] = None,
) -> Written:
    """Copies the body into a buffer."""
    return await write_content(session, request, buffer=command.buffer, offset=command.offset)


@router.get(
    "/{buffer:int}/content",
    name="Read",
    response_class=StreamingResponse,
    responses=problems(416)
    | {
        200: {"description": "All of it.", "content": {OCTETS: {"schema": BYTES}}},
        206: {"description": "The range.", "content": {OCTETS: {"schema": BYTES}}},
    },
)
async def read(
    session: InSession,
    request: Request,
    buffer: Handle,
    _: Annotated[str | None, _RANGE] = None,
    __: Annotated[str | None, _WANTED] = None,
) -> Response:
    """Copies the bytes of the Range header to the host."""
    return await read_content(session, request, buffer=buffer)
