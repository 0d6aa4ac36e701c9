"""Raw requests to both APIs for the hostile tenant; all answers are stored for a search."""

import asyncio
import mmap
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import grpc
from google.protobuf.message import Message

from opserve_client.wire.methods import Method, ResponseT

ANSWER_S = 2.0
"""Longest wait for an answer, in seconds."""
ANSWER_BYTES = 2**20
"""Most bytes to read of one answer over REST."""
KEPT_BYTES = 2**28
"""Most bytes to store of all answers."""
Host = tuple[str, int]
Metadata = Sequence[tuple[str, str | bytes]]


class Answers:
    """A file of all answers."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = KEPT_BYTES

    def keep(self, *found: object) -> None:
        """Stores bytes unchanged, and other values as text."""
        for one in found:
            data = one if isinstance(one, bytes) else str(one).encode()
            if data.strip(b"\0") and self._left > 0:
                self._left -= self._file.write(data)


def secrets_in(file: Path, secrets: Mapping[str, bytes]) -> list[str]:
    """Returns the names of the secrets in a file of answers."""
    if file.stat().st_size == 0:
        return []
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return [name for name, secret in secrets.items() if data.find(secret) >= 0]


@dataclass(frozen=True, slots=True)
class Wire:
    """Raw requests to both APIs of a service.

    Attributes:
        channel: Channel to the gRPC API.
        grpc: Host and port of the gRPC API.
        rest: Host and port of the REST API.
        key: API key.
        answers: File of the answers.
    """

    channel: grpc.aio.Channel
    grpc: Host
    rest: Host
    key: str
    answers: Answers

    async def call(
        self,
        method: Method[Any, ResponseT],
        request: Message | bytes,
        *,
        key: str | None = None,
        headers: Metadata = (),
    ) -> ResponseT | None:
        """Makes a call; returns its answer, or None if it was rejected or took too long."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        found = await self.send(method.path, data, key=key, headers=headers)
        return None if found is None else method.response.FromString(found)

    async def send(
        self, path: str, data: bytes, *, key: str | None = None, headers: Metadata = ()
    ) -> bytes | None:
        """Makes a call with the bytes of a message."""
        stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        metadata = (self.authorization(key), *headers)
        try:
            found = await stub(data, metadata=metadata, timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            self.answers.keep(error.code(), error.details(), *error.trailing_metadata())
            return None
        self.answers.keep(found)
        return found

    async def stream(self, method: Method[Any, Any], request: Message, *, held_s: float) -> None:
        """Reads a stream; if held_s is not 0, only its first answer, and holds it open unread."""
        stub: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(
            method.path
        )
        call = stub(request.SerializeToString(), metadata=(self.authorization(),), timeout=ANSWER_S)
        try:
            async for found in call:
                self.answers.keep(found)
                if held_s:
                    break
            await asyncio.sleep(held_s)
        except grpc.aio.AioRpcError as error:
            self.answers.keep(error.code(), error.details(), *error.trailing_metadata())
        finally:
            call.cancel()

    async def http(self, head: str, body: bytes = b"", *, key: str | None = None) -> None:
        """Sends one request over a new connection: a head without its end, and a body."""
        name, value = self.authorization(key)
        lines = f"{head}\r\nHost: localhost\r\nConnection: close\r\n{name}: {value}\r\n"
        length = f"Content-Length: {len(body)}\r\n\r\n"
        await self.bytes_to(self.rest, f"{lines}{length}".encode() + body)

    async def bytes_to(self, api: Host, data: bytes) -> None:
        """Sends bytes over a new connection and stores the answer."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_S), connection(api) as (reader, writer):
                writer.write(data)
                await writer.drain()
                self.answers.keep(await reader.read(ANSWER_BYTES))

    async def post_files(
        self, path: str, files: Mapping[str, bytes], *, held_s: float | None = None
    ) -> None:
        """Sends a multipart request over REST; reads its answer, or holds it unread for held_s."""
        name, value = self.authorization()
        parts = b"".join(
            b'--x\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n'
            % (part.encode(), data)
            for part, data in files.items()
        )
        body = parts + b"--x--\r\n"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nConnection: close\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        if held_s is None:
            await self.bytes_to(self.rest, head.encode() + body)
        else:
            await self.hold(self.rest, head.encode() + body, held_s=held_s)

    async def hold(self, api: Host, data: bytes, *, held_s: float) -> None:
        """Sends bytes over a new connection, and holds it open without reading or sending."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_S), connection(api) as (_, writer):
                writer.write(data)
                await asyncio.sleep(held_s)

    def authorization(self, key: str | None = None) -> tuple[str, str]:
        """Returns the header with the API key."""
        return "authorization", f"Bearer {self.key if key is None else key}"


@asynccontextmanager
async def connection(
    api: Host,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Opens a connection; the end of the block resets it."""
    reader, writer = await asyncio.open_connection(*api)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
