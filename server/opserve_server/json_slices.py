"""Large JSON documents in parts, so that none holds the event loop for long."""

import re
from collections.abc import AsyncGenerator
from itertools import pairwise

from opserve_server.calls import malformed
from opserve_server.core.turns import give_way

VALUES_AT_ONCE = 2**13
"""Values that are parsed in one turn of the event loop: 8,192 numbers take 0.7 ms."""
VALUES_LIMIT = 2**17
"""Values of a document that is parsed in parts."""
_VALUES_OF_A_PART = 2**11  # commands cost more than numbers: as many values take 1.3 ms
_TOKENS_AT_ONCE = 2**13
_TOKEN = re.compile(rb'["\[\]{},]|\\.', re.DOTALL)
_IN_OBJECT, _IN_LIST = 1, 2
"""Depths of the members of the document, and of the elements of a list among them."""


def check_values(document: bytes, parameter: str, *, limit: int = VALUES_AT_ONCE) -> None:
    """Refuses a document of too many values (100000), before one is read."""
    if (values := document.count(b",") + 1) > limit:
        allowed = f"at most {limit} values"
        raise malformed(parameter, given=f"some {values} values", allowed=allowed)


async def parts_of(document: bytes, member: str) -> AsyncGenerator[bytes]:
    """Documents of few values each, which together have what a document has.

    A document of few values is its only part. Else the first part has all but the elements of the
    list `member`, and each of the others some of these elements alone.

    Raises:
        InvalidArgument: 100000, the document has too many values, or too many beside that list, or
            too many in one element of it.
    """
    if document.count(b",") < _VALUES_OF_A_PART:
        yield document
        return
    check_values(document, "body", limit=VALUES_LIMIT)
    cuts = await _cuts(document, member)
    head = document[: cuts[0] + 1] + document[cuts[-1] :]
    check_values(head, "body")
    yield head
    for before, end in pairwise(cuts):
        elements = document[before + 1 : end]
        check_values(elements, member)
        if not elements.strip():
            raise malformed(member, given="text that is not JSON", allowed="an array")
        yield b'{"%s":[%s]}' % (member.encode(), elements)


async def _cuts(document: bytes, member: str) -> list[int]:
    """Places of a list: its beginning, commas between parts of it, and its end.

    Where there is no such list, the end of the document.
    """
    scan = _Scan(document, b'"%s"' % member.encode())
    for number, found in enumerate(_TOKEN.finditer(document), 1):
        if number % _TOKENS_AT_ONCE == 0:
            await give_way()
        scan.take(found[0], found.start())
        if scan.ended:
            return scan.cuts
    return [len(document), len(document)]


class _Scan:
    """Looks for the list of a key, token by token.

    Attributes:
        cuts: Places of the list so far.
        ended: Whether they are all.
    """

    def __init__(self, document: bytes, key: bytes) -> None:
        self._document, self._key = document, key
        self.cuts: list[int] = []
        self.ended = False
        self._depth = self._values = 0
        self._quote: int | None = None  # where the string began that is not over
        self._text = b""  # the last string of the outermost object

    def take(self, token: bytes, place: int) -> None:
        """The next token, which may be part of a string."""
        if token == b'"':
            self._begin_or_end_string(place)
        elif self._quote is not None:
            pass
        elif token in {b"[", b"{"}:
            self._depth += 1
            is_list = self._depth == _IN_LIST and token == b"["
            if is_list and self._text == self._key and not self.cuts:
                self.cuts.append(place)
        elif token in {b"]", b"}"}:
            if self._depth == _IN_LIST and self.cuts:
                self.cuts.append(place)
                self.ended = True
            self._depth -= 1
        elif token == b",":
            self._separate(place)

    def _begin_or_end_string(self, place: int) -> None:
        if self._quote is None:
            self._quote = place
            return
        if self._depth == _IN_OBJECT:
            self._text = self._document[self._quote : place + 1]
        self._quote = None

    def _separate(self, place: int) -> None:
        self._values += 1
        if self.cuts and self._depth == _IN_LIST and self._values > _VALUES_OF_A_PART:
            self.cuts.append(place)
            self._values = 0
