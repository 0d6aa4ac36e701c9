"""Server-sent events."""

from collections.abc import AsyncGenerator

from opserve_server.rest_api.streaming import StreamedAnswer

EVENT_STREAM = "text/event-stream"
SIGN_OF_LIFE = b":\n\n"
"""A comment, which clients ignore."""
_HEADERS = {"Cache-Control": "no-store"}


def event(name: str, number: int, data: bytes) -> bytes:
    """An event, whose data is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), data)


def streamed(events: AsyncGenerator[bytes], *, head: bytes = b"") -> StreamedAnswer:
    """The answer with some events, the first of which may have been taken."""
    return StreamedAnswer(events, head=head, headers=_HEADERS, media_type=EVENT_STREAM)
