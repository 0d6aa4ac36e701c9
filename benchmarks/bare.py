"""The client side of the yardstick: its server process, and blocking calls to it."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import grpc

from benchmarks.yardstick import CHUNK_BYTES, DOWNLOAD, ECHO, UPLOAD


@contextmanager
def yardstick_address(*, buffer_bytes: int, answer_bytes: int) -> Generator[str]:
    """Runs a yardstick until the block ends."""
    command = [sys.executable, "-m", "benchmarks.yardstick", str(buffer_bytes), str(answer_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class Bare:
    """Calls to a yardstick, with the same shapes as those of the subject.

    Args:
        channel: Channel to the yardstick.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._echo: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ECHO)
        self._upload: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(UPLOAD)
        self._download: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(DOWNLOAD)

    def echo(self, request: bytes) -> bytes:
        return self._echo(request)

    def upload(self, data: memoryview) -> None:
        starts = range(0, len(data), CHUNK_BYTES)
        self._upload(bytes(data[start : start + CHUNK_BYTES]) for start in starts)

    def download(self, target: memoryview) -> None:
        offset = 0
        for chunk in self._download(len(target).to_bytes(8, "little")):
            target[offset : offset + len(chunk)] = chunk
            offset += len(chunk)
        assert offset == len(target)
