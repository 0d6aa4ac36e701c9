"""Server-sent events, split at any byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from opserve.v1.stream_service_pb2 import WatchStreamRequest, WatchStreamResponse
from opserve_client import OpserveError
from opserve_client.transports import AsyncRestTransport
from opserve_client.wire.server_sent_events import ServerSentEvents

ENTRY = {"sequence": 7, "operator": "im2col_√∑🜁"}
LOST = {"first": 1, "last": 6}
TEXT = (
    ": hello\n\nretry: 500\n\nid: 6\n\n"  # none of them is news
    f"event: lost\nid: 6\ndata: {json.dumps(LOST)}\n\n"
    f"id:7\nevent:entry\ndata:{json.dumps(ENTRY, ensure_ascii=False)}\n\n: still here\n\n"
)


def messages_of(lines: list[str]) -> Iterator[WatchStreamResponse]:
    events = ServerSentEvents()
    for line in lines:
        news = events.feed(line)
        if news is not None:
            yield news


def check(news: list[WatchStreamResponse]) -> None:
    lost, entry = news
    assert (lost.lost.first, lost.lost.last) == (1, 6)
    assert (entry.entry.sequence, entry.entry.operator) == (7, ENTRY["operator"])


def test_comments_ids_and_retries_are_no_news() -> None:
    check(list(messages_of(TEXT.split("\n"))))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_connection_may_break_at_any_byte(size: int, end: str) -> None:
    body = TEXT.replace("\n", end).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async def watched() -> list[WatchStreamResponse]:
        served = httpx2.MockTransport(lambda _: httpx2.Response(200, content=pieces()))
        http = httpx2.AsyncClient(transport=served, base_url="http://test")
        transport = AsyncRestTransport("http://test", http=http)
        news = [news async for news in transport.watch(WatchStreamRequest(session="s"))]
        await transport.close()
        return news

    check(asyncio.run(watched()))


@pytest.mark.parametrize(
    "event",
    [
        ["event: entry"],
        ["event: entry", "data: {"],
        ["event: entry", "data: []"],
        ["event: entry", 'data: {"sequence": "many"}'],
    ],
)
def test_an_unknown_event_is_refused(event: list[str]) -> None:
    with pytest.raises(OpserveError, match="malformed event"):
        list(messages_of([*event, ""]))


def test_an_event_of_a_kind_that_is_not_known_yet_is_no_news() -> None:
    assert not list(messages_of(["event: progress", "data: {}", ""]))


def test_an_event_that_is_cut_off_is_none() -> None:
    assert not list(messages_of(["event: lost", f"data: {json.dumps(LOST)}"]))
