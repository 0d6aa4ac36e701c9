"""HTTP/2 frames for requests that no library sends: calls and messages without an end."""

import asyncio
import struct
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4
_HEAD = struct.Struct("!BHBBI")
_SETTING = struct.Struct("!HI")
_NUMBER = struct.Struct("!I")
_WINDOW_BYTES = 65535
FRAME_BYTES = 16384
_INITIAL_WINDOW = 4
"""Number of the setting INITIAL_WINDOW_SIZE."""


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """Returns a frame of HTTP/2."""
    high, low = divmod(len(payload), 2**16)
    return _HEAD.pack(high, low, kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """Returns a literal header; its name and its value have at most 126 bytes each."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call_headers(path: str, *others: tuple[str, str]) -> bytes:
    """Returns the headers of a gRPC call."""
    given = [(":path", path), (":authority", "a"), ("te", "trailers")]
    given += [("content-type", "application/grpc"), *others]
    return b"\x83\x86" + b"".join(literal(name.encode(), value.encode()) for name, value in given)


def announced(size_bytes: int) -> bytes:
    """Returns the head of a gRPC message of size_bytes bytes."""
    return struct.pack("!BI", 0, size_bytes)


class Http2:
    """A connection that respects flow-control windows and acknowledges SETTINGS and PING.

    Attributes:
        ended: Streams that the service has ended.
        closed: Whether the connection has ended.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, reads: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._last = -1
        self._initial = _WINDOW_BYTES
        self._windows: defaultdict[int, int] = defaultdict(int, {0: _WINDOW_BYTES})
        self._changed = asyncio.Event()
        self.ended: set[int] = set()
        self.closed = False
        window = _SETTING.pack(_INITIAL_WINDOW, _WINDOW_BYTES if reads else 0)
        writer.write(PREFACE + frame(SETTINGS, payload=window))

    def begin(self, path: str, *headers: tuple[str, str]) -> int:
        """Begins a call; returns the number of its stream."""
        self._last += 2
        self._writer.write(frame(HEADERS, END_HEADERS, self._last, call_headers(path, *headers)))
        return self._last

    async def send(self, stream: int, data: bytes, *, frame_bytes: int = FRAME_BYTES) -> None:
        """Sends bytes within the windows, until the service ends the stream."""
        left = memoryview(data)  # slices without copies
        while left and stream not in self.ended and not self.closed:
            room = min(self.room(stream), FRAME_BYTES)
            if not room:
                await self.change()
                continue
            piece, left = left[:room], left[room:]
            each = range(0, len(piece), frame_bytes)
            frames = (frame(DATA, 0, stream, bytes(piece[n : n + frame_bytes])) for n in each)
            self._writer.write(b"".join(frames))
            for window in (0, stream):
                self._windows[window] -= len(piece)
            with suppress(ConnectionError):
                await self._writer.drain()

    def room(self, stream: int) -> int:
        """Returns the bytes that the windows of a stream allow now."""
        return max(min(self._initial + self._windows[stream], self._windows[0]), 0)

    async def change(self) -> None:
        """Waits until the service sends a frame or closes the connection."""
        self._changed.clear()
        await self._changed.wait()

    async def listen(self) -> None:
        """Processes the frames of the service until the connection ends."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await self._reader.readexactly(_HEAD.size)
                high, low, kind, flags, stream = _HEAD.unpack(head)
                payload = await self._reader.readexactly(high * 2**16 + low)
                self._take(kind, flags, stream, payload)
                self._changed.set()
        self.closed = True
        self._changed.set()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (PING, SETTINGS) and not flags & ACKNOWLEDGED:
            self._writer.write(frame(kind, ACKNOWLEDGED, 0, payload if kind == PING else b""))
        if kind == SETTINGS:
            settings = dict(_SETTING.iter_unpack(payload))
            self._initial = settings.get(_INITIAL_WINDOW, self._initial)
        elif kind == WINDOW_UPDATE:
            self._windows[stream] += _NUMBER.unpack(payload)[0]
        elif kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM):
            self.ended.add(stream)


@asynccontextmanager
async def http2(
    host: str, port: int, *, source: str | None = None, reads: bool = True
) -> AsyncGenerator[Http2]:
    """Opens a connection; the end of the block resets it.

    Args:
        host: Host of the service.
        port: Port of the service.
        source: Local address of the connection.
        reads: Whether the window allows the service to send data.
    """
    local_address = None if source is None else (source, 0)
    reader, writer = await asyncio.open_connection(host, port, local_addr=local_address)
    made = Http2(reader, writer, reads=reads)
    listening = asyncio.create_task(made.listen())
    try:
        yield made
    finally:
        listening.cancel()
        writer.transport.abort()
        await asyncio.gather(listening, return_exceptions=True)
