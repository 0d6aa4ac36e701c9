"""The yardstick: a bare grpc.aio server in a separate process with the least work for each call."""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import uvloop

from opserve_server.allocator import keep_freed_memory

CHUNK_BYTES = 1 << 18
ECHO = "/yardstick.Yardstick/Echo"
UPLOAD = "/yardstick.Yardstick/Upload"
DOWNLOAD = "/yardstick.Yardstick/Download"


def main() -> None:
    """Serves on a free loopback port, which it prints, until the process ends."""
    keep_freed_memory()
    buffer_bytes, answer_bytes = (int(argument) for argument in sys.argv[1:])
    uvloop.run(serve(Yardstick(buffer_bytes, answer_bytes)))


class Yardstick:
    """An echo, and streams of chunks into and out of a buffer with resident pages.

    Args:
        buffer_bytes: Size of the buffer.
        answer_bytes: Size of the echo's answer.
    """

    def __init__(self, buffer_bytes: int, answer_bytes: int) -> None:
        self._buffer = memoryview(bytearray(b"\1" * buffer_bytes))
        self._answer = bytes(answer_bytes)

    async def echo(self, _request: bytes, _context: object) -> bytes:
        return self._answer

    async def upload(self, chunks: AsyncIterator[bytes], _context: object) -> bytes:
        offset = 0
        async for chunk in chunks:
            self._buffer[offset : offset + len(chunk)] = chunk
            offset += len(chunk)
        return offset.to_bytes(8, "little")

    async def download(self, request: bytes, _context: object) -> AsyncIterator[bytes]:
        size_bytes = int.from_bytes(request, "little")
        for offset in range(0, size_bytes, CHUNK_BYTES):
            yield bytes(self._buffer[offset : min(offset + CHUNK_BYTES, size_bytes)])


async def serve(yardstick: Yardstick) -> None:
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Echo": grpc.unary_unary_rpc_method_handler(yardstick.echo),
        "Upload": grpc.stream_unary_rpc_method_handler(yardstick.upload),
        "Download": grpc.unary_stream_rpc_method_handler(yardstick.download),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("yardstick.Yardstick", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main()
