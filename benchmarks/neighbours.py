"""Latency of small calls while another tenant uploads, and beside a process that only computes."""

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Thread

import grpc

from benchmarks.measure import percentile, seconds_of
from benchmarks.rounds import Pair
from benchmarks.subject import Bulk, open_session
from opserve.v1.stream_service_pb2 import QueryStreamRequest
from opserve.v1.stream_service_pb2_grpc import StreamServiceStub
from opserve_server.allocator import keep_freed_memory

UPLOAD_MIB = 256
BESIDE = "small call p99 beside an upload, ms | beside a busy process"
_MIB = 1 << 20
_BUSY_S = 1.0  # about as long as an upload


def main() -> None:
    """Runs a neighbour: works once for each line of standard input, and answers with a line."""
    keep_freed_memory()
    work = uploading(sys.argv[1]) if len(sys.argv) > 1 else busy
    print("ready", flush=True)
    for _ in sys.stdin:
        work()
        print("done", flush=True)


def uploading(address: str) -> Callable[[], None]:
    """Returns a function that uploads as another tenant."""
    bulk, data = Bulk(address, UPLOAD_MIB * _MIB), bytes(UPLOAD_MIB * _MIB)
    bulk.upload(memoryview(data))  # faults in the pages, outside the measurement
    return lambda: bulk.upload(memoryview(data))


def busy() -> None:
    """Computes for about the time of an upload."""
    end = time.perf_counter() + _BUSY_S
    while time.perf_counter() < end:
        pass


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Both neighbours of a tenant's small calls.

    Attributes:
        query: A small call.
        uploader: Process that uploads on request.
        hog: Process that computes on request.
    """

    query: Callable[[], object]
    uploader: "subprocess.Popen[str]"
    hog: "subprocess.Popen[str]"

    def measure(self) -> Mapping[str, Pair]:
        beside_hog, beside_upload = self._p99_ms(self.hog), self._p99_ms(self.uploader)
        return {BESIDE: Pair(subject=beside_upload, yardstick=beside_hog)}

    def _p99_ms(self, neighbour: "subprocess.Popen[str]") -> float:
        assert neighbour.stdin is not None
        assert neighbour.stdout is not None
        neighbour.stdin.write("go\n")
        neighbour.stdin.flush()
        waiting = Thread(target=neighbour.stdout.readline)
        waiting.start()
        return percentile(list(_seconds_while(waiting, self.query)), 99) * 1e3


def _seconds_while(other: Thread, call: Callable[[], object]) -> Iterator[float]:
    while other.is_alive():
        yield seconds_of(call)


@contextmanager
def neighbours(address: str, channel: grpc.Channel) -> Generator[Neighbours]:
    """Starts a tenant on the channel, and its neighbours until the block ends."""
    query = QueryStreamRequest(session=open_session(channel))
    stub = StreamServiceStub(channel)
    with ExitStack() as stack:
        uploader, hog = (stack.enter_context(_neighbour(*words)) for words in ((address,), ()))
        yield Neighbours(lambda: stub.QueryStream(query), uploader, hog)


@contextmanager
def _neighbour(*words: str) -> "Generator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "benchmarks.neighbours", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


if __name__ == "__main__":
    main()
