"""A port that answers HTTP requests with scripted bytes, over loopback."""

import socket
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

END = b"\r\n\r\n"


@dataclass
class Received:
    """A request."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """Answers of a port.

    Attributes:
        answers: Returns the parts of the answer to a request, each sent by itself; the connection
            ends after an answer that is empty or whose last part is empty.
        requests: The requests.
        connections: Number of accepted connections.
    """

    answers: Callable[[Received], Iterable[bytes]]
    requests: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while True:
                request = received(connection)
                if request is None:
                    return
                self.requests.append(request)
                part = b""
                for part in self.answers(request):
                    connection.sendall(part)
                if not part:
                    return


def received(connection: socket.socket) -> Received | None:
    """The next request, or None at the end of the connection."""
    data = b""
    while END not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(END)
    line, *fields = head.decode().split("\r\n")
    headers = dict(one.split(": ", 1) for one in fields)
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return Received(line, headers, body)


@contextmanager
def scripted(answers: Callable[[Received], Iterable[bytes]]) -> Generator[Script]:
    """A port, until the block ends."""
    script = Script(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script.port = listener.getsockname()[1]

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    script.connections += 1
                    Thread(target=script.serve, args=(connection,), daemon=True).start()

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        yield script
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def answer(
    body: bytes, *, status: int = 200, media_type: str = "application/proto", more: str = ""
) -> bytes:
    """A complete answer."""
    head = f"HTTP/1.1 {status} x\r\ncontent-type: {media_type}\r\n{more}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(*parts: bytes) -> bytes:
    """A complete answer in chunks."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
