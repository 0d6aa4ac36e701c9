"""Writes to a REST connection are sent in few pieces, in order and completely."""

import asyncio
from collections.abc import Sequence
from unittest import mock

from opserve_server.rest_api.connections import JoiningTransport

HEAD, BODY, LARGE = b"head", b"body", b"large" * 1000


class Wire:
    """A transport that joins writes, and the pieces that left it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        below = mock.Mock(spec=asyncio.Transport)
        below.write.side_effect = self.pieces.append
        below.writelines.side_effect = self._take_all
        below.close.side_effect = lambda: self.pieces.append(b"closed")
        self.end = JoiningTransport(below, asyncio.get_running_loop())

    def _take_all(self, data: Sequence[bytes]) -> None:
        assert all(data)  # an empty piece keeps the loop of Python 3.12 and later busy
        self.pieces.append(b"".join(data))


async def test_a_head_leaves_with_its_body() -> None:
    for body in (BODY, LARGE, b""):
        wire = Wire()
        wire.end.write(HEAD)
        wire.end.write(body)
        assert wire.pieces == [HEAD + body]
        await asyncio.sleep(0)
        assert wire.pieces == [HEAD + body]


async def test_a_head_whose_body_is_late_leaves_at_the_end_of_the_turn() -> None:
    wire = Wire()
    wire.end.write(HEAD)
    assert not wire.pieces
    await asyncio.sleep(0)
    wire.end.write(BODY)
    await asyncio.sleep(0)
    assert wire.pieces == [HEAD, BODY]


async def test_a_large_piece_is_not_held() -> None:
    wire = Wire()
    wire.end.write(LARGE)
    assert wire.pieces == [LARGE]


async def test_held_writes_are_sent_before_the_end() -> None:
    wire = Wire()
    wire.end.write(HEAD)
    wire.end.close()
    await asyncio.sleep(0)
    assert wire.pieces == [HEAD, b"closed"]
