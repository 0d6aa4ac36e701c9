"""HTTP/1.1 messages: heads of requests, and answers that are parsed as their bytes arrive."""

import socket
import ssl
import sys
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

from opserve_client.access import Access, unusable
from opserve_client.errors import invalid_parameter

PIECE_BYTES = 256 * 2**10
"""Most bytes of a body that one read returns, or that one write passes on."""
SMALL_BYTES = 64 * 2**10
"""Most bytes of a body that is sent with its head, and of the first read of an answer."""
CONNECT_LIMIT_S = 20.0
"""Time limit of an attempt to connect in seconds, also where a call may take longer."""
_SILENCE_S = 15
"""Seconds of silence after which the system probes whether the other end is still there."""
_PROBES = 3
_HEAD_BYTES_LIMIT = 64 * 2**10
_HEADS_LIMIT = 256
_PORTS = {"http": 80, "https": 443}
_FINAL = 200
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
CLOSED = "the connection ended before the answer"


class HttpFailure(Exception):
    """A request without a complete answer: no connection, a broken one, or bytes that are no HTTP.

    Attributes:
        late: Whether the time limit passed while the client waited for the answer.
    """

    def __init__(self, text: str, *, late: bool = False) -> None:
        super().__init__(text)
        self.late = late


def failure_of(error: OSError) -> HttpFailure:
    """Returns the failure of a connection."""
    return HttpFailure(f"{type(error).__name__}: {error}")


def late() -> HttpFailure:
    """Returns the failure of an answer that exceeds its time limit."""
    return HttpFailure("the answer took longer than the time limit", late=True)


def tune(connection: socket.socket) -> None:
    """Sends small requests at once, and ends the connection to a host that has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of a service: "http://farm:8080/prefix".

    Attributes:
        host: Host name or IP address.
        port: Port.
        authority: Value of the header Host.
        prefix: Begin of every path, without a slash at its end.
    """

    host: str
    port: int
    authority: str
    prefix: str


def origin_of(url: str) -> Origin:
    """Returns the origin of a URL.

    Raises:
        AclrtError: 107000, it has no host, a malformed port, a user, or a query.
    """
    allowed = "http://HOST:PORT or https://HOST:PORT, and a path behind it"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise invalid_parameter("address", "another text", allowed) from None
    if parts.username is not None:  # whose password no error may show
        raise invalid_parameter("address", "a URL with a user", allowed)
    if not host or parts.query or parts.fragment:
        raise invalid_parameter("address", url, allowed)
    return Origin(
        host=host,
        port=_PORTS[parts.scheme] if port is None else port,
        authority=parts.netloc,
        prefix=parts.path.rstrip("/"),
    )


def tls_context(access: Access) -> ssl.SSLContext | None:
    """Returns the settings of HTTP connections under TLS; None without TLS.

    Raises:
        AclrtError: 107000, a file cannot be read.
    """
    if not access.secure:
        return None
    tls = access.tls
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key, password="")
    except OSError as error:  # an SSLError is one
        raise unusable(tls, error) from error
    return context


class Request(NamedTuple):
    """A request.

    Attributes:
        verb: HTTP verb.
        path: Path behind the prefix of the service, with the query.
        fields: Header fields.
        body: Body.
    """

    verb: str
    path: str
    fields: tuple[tuple[str, str], ...]
    body: bytes | memoryview = b""


class Heads:
    """Heads of requests, each encoded once.

    Args:
        origin: Place of the service.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._known: dict[tuple[str, str, tuple[tuple[str, str], ...]], bytes] = {}

    def of(self, request: Request) -> bytes:
        """Returns the complete head of a request."""
        key = request[:3]
        head = self._known.get(key)
        if head is None:
            if len(self._known) == _HEADS_LIMIT:
                self._known.clear()
            head = self._known[key] = self._encoded(request)
        return b"%scontent-length: %d\r\n\r\n" % (head, len(request.body))

    def _encoded(self, request: Request) -> bytes:
        fields = (("host", self._origin.authority), *request.fields)
        lines = [
            f"{request.verb} {self._origin.prefix}{request.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in fields),
            "",
        ]
        return "\r\n".join(lines).encode("latin-1")


class Answer:
    """The answer to one request, whose bytes are fed to it.

    Attributes:
        status: Status; 0 until the head is complete.
        complete: Whether all of it has arrived.
        reusable: Whether the connection can serve another request.
    """

    __slots__ = ("_head_bytes", "_parser", "_pieces", "_sized", "complete", "reusable", "status")

    def __init__(self) -> None:
        self.status = 0
        self.complete = self.reusable = False
        self._pieces: list[bytes] = []
        self._head_bytes = 0
        self._sized = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Parses the next bytes of the connection.

        Raises:
            HttpFailure: They are no answer.
        """
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise HttpFailure(f"the port sent no HTTP: {error}") from error
        if not self.status:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_LIMIT:
                raise HttpFailure(f"the head of the answer exceeds {_HEAD_BYTES_LIMIT} bytes")

    def end(self) -> None:
        """Ends the answer with its connection.

        Raises:
            HttpFailure: It is not complete.
        """
        if not self.complete and (not self.status or self._sized):
            raise HttpFailure(CLOSED)
        self.complete = True

    def take(self) -> bytes:
        """Returns the bytes of the body that have arrived since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def on_message_begin(self) -> None:
        """Begins a message, of which there may be one."""
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, _: bytes) -> None:
        """Notes whether the body has an end of its own."""
        self._sized = self._sized or name.lower() in _LENGTHS

    def on_headers_complete(self) -> None:
        """Sets the status; an interim answer, such as 100, has none."""
        status = self._parser.get_status_code()
        self.status = status if status >= _FINAL else 0

    def on_body(self, body: bytes) -> None:
        """Keeps a part of the body."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Completes the answer."""
        if self.status:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
