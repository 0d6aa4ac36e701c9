"""Content-Digest (RFC 9530): SHA-256 of a body, checked on upload and sent on request."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import AsyncIterator
from hashlib import sha256

from starlette.requests import Request

from opserve_server.calls import malformed
from opserve_server.core.errors import DataCorrupted

CONTENT_DIGEST = "Content-Digest"
WANT_CONTENT_DIGEST = "Want-Content-Digest"

_GIVEN = re.compile(r"(?:^|,)\s*sha-256=:([^:]*):")
_WANTED = re.compile(r"(?:^|,)\s*sha-256=([0-9]{1,2})\s*(?:,|$)")


async def checked(request: Request) -> AsyncIterator[bytes]:
    """The body as it arrives; compares its digest at the end.

    Raises:
        InvalidArgument: 100000, the digest has another form.
        DataCorrupted: 507052, the body has another digest.
    """
    given = _GIVEN.search(request.headers.get(CONTENT_DIGEST, ""))
    expected = None if given is None else _decoded(given[1])
    found = sha256()
    async for chunk in request.stream():
        if expected is not None:
            found.update(chunk)
        yield chunk
    if expected is not None and expected != found.digest():
        sent, received = (b64encode(digest).decode() for digest in (expected, found.digest()))
        raise DataCorrupted(CONTENT_DIGEST, given=sent, allowed=received)


def is_wanted(request: Request) -> bool:
    """Whether a caller wants the digest of the answer; a preference of 0 means no."""
    wanted = _WANTED.search(request.headers.get(WANT_CONTENT_DIGEST, ""))
    return wanted is not None and int(wanted[1]) > 0


async def digest_of(chunks: AsyncIterator[bytes]) -> str:
    """The Content-Digest of these bytes."""
    found = sha256()
    async for chunk in chunks:
        found.update(chunk)
    return f"sha-256=:{b64encode(found.digest()).decode()}:"


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Error:
        allowed = "sha-256=:BASE64:"
        raise malformed(CONTENT_DIGEST, given=text, allowed=allowed) from None
