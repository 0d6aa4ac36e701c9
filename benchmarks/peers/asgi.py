"""A bare ASGI server on uvicorn: PUT keeps the bytes of a body, GET returns as many as it has."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn
import uvloop

from opserve_server.allocator import keep_freed_memory

CHUNK_BYTES = 1 << 18
_Message = MutableMapping[str, Any]


def main() -> None:
    """Serves on a free loopback port, which it prints, until the process ends."""
    keep_freed_memory()
    buffer = memoryview(bytearray(b"\1" * int(sys.argv[1])))

    async def app(
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        offset, more = 0, True
        while more:
            part = await receive()
            data: bytes = part["body"]
            buffer[offset : offset + len(data)] = data
            offset, more = offset + len(data), part["more_body"]
        size = int(scope["query_string"] or 0)
        head = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for start in range(0, size, CHUNK_BYTES):
            chunk = bytes(buffer[start : min(start + CHUNK_BYTES, size)])
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def serve() -> None:
        server = uvicorn.Server(config)
        listener = config.bind_socket()
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])

    config = uvicorn.Config(
        app, port=0, http="httptools", lifespan="off", log_config=None, access_log=False
    )
    uvloop.run(serve())


@contextmanager
def asgi_url(*, buffer_bytes: int) -> Generator[str]:
    """Runs a server until the block ends; yields its URL."""
    command = [sys.executable, "-m", __name__, str(buffer_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
