"""Large JSON documents in parts, so that no part blocks the event loop for long.

Parts are measured in values and bytes: the slowest values, in small commands, take 0.7 microseconds
each, and bytes of base64 text three nanoseconds.
"""

import re
from collections.abc import AsyncGenerator
from itertools import pairwise

from opserve_server.calls import malformed
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.time_slices import end_slice

VALUES_AT_ONCE = 2**13
"""Values parsed in one iteration of the event loop at most."""
BYTES_AT_ONCE = 2**18
"""Bytes parsed in one iteration of the event loop at most."""
VALUES_LIMIT = 2**19
"""Values of a document that is parsed in parts."""
_VALUES_OF_A_PART, _BYTES_OF_A_PART = VALUES_AT_ONCE // 4, BYTES_AT_ONCE // 4
"""Thresholds after which a part ends: its last element may be as large as the rest."""
_BYTES_A_TURN = 2**11
"""Bytes scanned in one iteration of the event loop; each may be a token."""
_TOKEN = re.compile(rb'[^"\[\]{},:]*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:])', re.DOTALL)
_IN_OBJECT, _IN_LIST = 1, 2
"""Depths of the members of the document, and of the elements of a list among them."""


def check_values(document: bytes, parameter: str) -> None:
    """Rejects a document of too many bytes or values (100000) before parsing it."""
    _check_bytes(document, parameter)
    if (values := _values_in(document)) > VALUES_AT_ONCE:
        raise _too_many(parameter, f"some {values} values", VALUES_AT_ONCE)


async def parts_of(document: bytes, member: str) -> AsyncGenerator[bytes]:
    """Splits a document into documents of few values and bytes each.

    A small document is its only part. Otherwise the first part has everything except the elements
    of the list `member`, and each other part has some of these elements alone.

    Raises:
        InvalidArgument: 100000, the document has too many values, or too many values or bytes
            beside that list or in one element of it.
    """
    if len(document) <= _BYTES_OF_A_PART and _values_in(document) <= _VALUES_OF_A_PART:
        yield document
        return
    cuts = await _cuts(document, member)
    head = document[: cuts[0] + 1] + document[cuts[-1] :]
    check_values(head, "body")
    yield head
    for before, end in pairwise(cuts):
        elements = document[before + 1 : end]
        _check_bytes(elements, member)
        if not elements.strip():
            raise malformed(member, given="text that is not JSON", allowed="an array")
        yield b'{"%s":[%s]}' % (member.encode(), elements)


async def _cuts(document: bytes, member: str) -> list[int]:
    """Positions in a list: its begin, commas between parts, and its end.

    Without such a list, or at a text that no part could have, the position is the end of the
    document.
    """
    scan = _Scan(member)
    end, pause = 0, _BYTES_A_TURN
    while found := _TOKEN.match(document, end, end + BYTES_AT_ONCE):
        scan.take(found[1], found.start(1))
        if scan.values > VALUES_LIMIT:
            raise _too_many("body", "more", VALUES_LIMIT)
        if scan.ended:
            return scan.cuts
        end = found.end()
        if end >= pause:
            await end_slice()
            pause = end + _BYTES_A_TURN
    return [len(document), len(document)]


class _Scan:
    """Scanner that finds the list of a key, token by token; a text is one token.

    Attributes:
        cuts: Positions of the list so far.
        ended: Whether the positions are complete.
        values: Values so far.
    """

    def __init__(self, member: str) -> None:
        self._member, self._key = member, b'"%s"' % member.encode()
        self.cuts: list[int] = []
        self.ended = False
        self.values = self._values_before = self._depth = 0
        self._text = b""  # the latest text of the outermost object

    def take(self, token: bytes, place: int) -> None:
        """The next token.

        Raises:
            InvalidArgument: 100000, an element of the list has too many values.
        """
        if token in b",:[{":
            self.values += 1
            if token == b",":
                self._separate(place)
            elif token != b":":
                self._open(token, place)
        elif token in b"]}":
            self.ended = self._is_in_list
            if self.ended:
                self._cut(place)
            self._depth -= 1
        elif self._depth == _IN_OBJECT:
            self._text = token

    @property
    def _is_in_list(self) -> bool:
        return self._depth == _IN_LIST and bool(self.cuts)

    def _open(self, token: bytes, place: int) -> None:
        self._depth += 1
        if self._depth == _IN_LIST and token == b"[" and self._text == self._key:
            self._cut(place)

    def _separate(self, place: int) -> None:
        if self._is_in_list and (
            self.values - self._values_before > _VALUES_OF_A_PART
            or place - self.cuts[-1] > _BYTES_OF_A_PART
        ):
            self._cut(place)

    def _cut(self, place: int) -> None:
        values = self.values - self._values_before
        if self.cuts and values > VALUES_AT_ONCE:
            raise _too_many(self._member, f"{values} values", VALUES_AT_ONCE)
        self.cuts.append(place)
        self._values_before = self.values


def _values_in(document: bytes) -> int:
    """Values of a document, estimated by its commas, colons and opening brackets."""
    return sum(map(document.count, (b",", b":", b"[", b"{")))


def _check_bytes(document: bytes, parameter: str) -> None:
    if len(document) > BYTES_AT_ONCE:
        allowed = f"at most {BYTES_AT_ONCE} bytes"
        raise malformed(parameter, given=f"{len(document)} bytes", allowed=allowed)


def _too_many(parameter: str, given: str, limit: int) -> InvalidArgument:
    return malformed(parameter, given=given, allowed=f"at most {limit} values")
