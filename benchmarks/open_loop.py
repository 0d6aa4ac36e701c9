"""Latency of small calls under load: requests leave by a schedule, whatever the service does.

A latency counts from the scheduled time of its request, so a stall of the service delays all
requests that fall into it. Clients that wait for each answer would send, and count, only one.
"""

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate

import grpc
import uvloop

from benchmarks.measure import percentile
from benchmarks.processes import Program, program
from benchmarks.rounds import Pair
from benchmarks.small_call import DATA, SmallCall
from benchmarks.subject import LEASE_S
from benchmarks.yardstick import ECHO
from opserve_client import Client
from opserve_client.http_async import HttpConnections
from opserve_client.wire.http_messages import Request, origin_of
from opserve_client.wire.methods import SUBMIT

CLIENTS = 4
SHARE = 0.7
"""Share of the saturation."""
SATURATION_S, OPEN_S = 1.0, 3.0
PERCENTS = (50, 99, 99.9)
RATE = f"small call by {CLIENTS} clients over {{}}, calls/s | gRPC echo of its bytes"
LATENCY = "small call over {} at 70 % of that rate, p{:g}, ms | gRPC echo at as many calls/s"
AT_ONCE = 48
"""Calls of one client in progress, each with buffers and a stream of its own; further ones wait."""
_TIMEOUT_S = 60.0
_OK = 200
_LATE_S = 60.0
Call = Callable[[], Awaitable[None]]
Send = Callable[[bytes], Awaitable[bytes]]


def main() -> None:
    """Runs a client: `SERVICE call`, or `YARDSTICK echo BYTES`; a line of JSON for each load."""
    address, kind, *words = sys.argv[1:]
    uvloop.run(_serve(address, int(words[0]) if kind == "echo" else None))


async def _serve(address: str, echo_bytes: int | None) -> None:
    with ExitStack() as stack:
        requests, expected = [bytes(echo_bytes or 0)] * AT_ONCE, b""
        over, path = _over_grpc, ECHO
        if echo_bytes is None:
            client = stack.enter_context(Client(address))
            session = client.open_session(lease_s=LEASE_S)
            streams = [session.create_stream().handle for _ in range(AT_ONCE)]
            calls = [SmallCall(session, stream=stream) for stream in streams]
            requests, expected = [call.request.SerializeToString() for call in calls], DATA
            over, path = _over_http if address.startswith("http://") else _over_grpc, SUBMIT.path
        call = _pooled(over(address, path), requests, expected=expected)
        # A full collection of what a client has imported stalls it for 25 to 75 ms.
        gc.freeze()
        print(json.dumps({"request_bytes": len(requests[0])}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            load = json.loads(line)
            if load["calls_per_s"] is None:
                print(json.dumps({"calls": await _closed_loop(call, load["seconds"])}), flush=True)
            else:
                print(json.dumps({"ms": await measure_open_loop(call, **load)}), flush=True)


def _pooled(send: Send, requests: Sequence[bytes], *, expected: bytes) -> Call:
    """Returns a call that sends a request of which no other call is in progress."""
    free: asyncio.Queue[bytes] = asyncio.Queue()
    for request in requests:
        free.put_nowait(request)

    async def call() -> None:
        request = await free.get()
        assert expected in await send(request), "the answer has the bytes of the request"
        free.put_nowait(request)

    return call


def _over_grpc(address: str, path: str) -> Send:
    channel = grpc.aio.insecure_channel(address)
    stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)

    async def send(body: bytes) -> bytes:
        return await stub(body, timeout=_TIMEOUT_S)

    return send


def _over_http(address: str, path: str) -> Send:
    http = HttpConnections(origin_of(address), None)

    async def send(body: bytes) -> bytes:
        request = Request("POST", path, (("Content-Type", "application/proto"),), body)
        status, answer = await http.call(request, timeout_s=_TIMEOUT_S)
        assert status == _OK, answer
        return answer

    return send


async def _closed_loop(call: Call, seconds: float) -> int:
    """Returns the number of calls, one after the other."""
    end_s, calls = time.perf_counter() + seconds, 0
    while time.perf_counter() < end_s:
        await call()
        calls += 1
    return calls


async def measure_open_loop(
    call: Call, *, seconds: float, calls_per_s: float, seed: int
) -> list[float]:
    """Returns the latencies of calls at random times (a Poisson process), in milliseconds."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    gaps = (chance.expovariate(calls_per_s) for _ in range(round(seconds * calls_per_s)))
    begin_s = time.perf_counter()
    due = [begin_s + offset for offset in accumulate(gaps)]
    loop = asyncio.get_running_loop()
    found: list[float] = []
    async with asyncio.timeout(seconds + _LATE_S), asyncio.TaskGroup() as calling:

        async def one(due_s: float) -> None:
            await call()
            found.append((time.perf_counter() - due_s) * 1e3)

        def start(due_s: float) -> None:
            calling.create_task(one(due_s))

        def start_all() -> None:
            # A thread, as timers of an event loop are accurate to a millisecond only.
            for due_s in due:
                time.sleep(max(due_s - time.perf_counter(), 0.0))
                loop.call_soon_threadsafe(start, due_s)

        await asyncio.to_thread(start_all)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Clients of the service over both wires, and of a bare echo.

    Attributes:
        subjects: Clients by the name of their wire.
        echo: Clients of the echo.
    """

    subjects: Mapping[str, Sequence[Program]]
    echo: Sequence[Program]

    def measure(self) -> Mapping[str, Pair]:
        measured: dict[str, Pair] = {}
        echoes = _saturation(self.echo)
        for wire, clients in self.subjects.items():
            rate = _saturation(clients)
            measured[RATE.format(wire)] = Pair(subject=rate, yardstick=echoes)
            ours = _latencies(clients, calls_per_s=SHARE * rate)
            theirs = _latencies(self.echo, calls_per_s=SHARE * rate)
            for percent in PERCENTS:
                measured[LATENCY.format(wire, percent)] = Pair(
                    subject=percentile(ours, percent), yardstick=percentile(theirs, percent)
                )
        return measured


def _saturation(clients: Sequence[Program]) -> float:
    for client in clients:
        client.send(seconds=SATURATION_S, calls_per_s=None)
    calls: int = sum(client.receive()["calls"] for client in clients)
    return calls / SATURATION_S


def _latencies(clients: Sequence[Program], *, calls_per_s: float) -> list[float]:
    each = calls_per_s / len(clients)
    for seed, client in enumerate(clients):
        client.send(seconds=OPEN_S, calls_per_s=each, seed=seed)
    return [ms for client in clients for ms in client.receive()["ms"]]


@contextmanager
def open_loop(addresses: Mapping[str, str], yardstick: str) -> Generator[OpenLoop]:
    """Runs clients until the block ends.

    Args:
        addresses: Addresses of the service by the name of their wire.
        yardstick: Address of the bare echo.
    """
    with ExitStack() as stack:

        def clients(address: str, *words: str) -> list[Program]:
            return [stack.enter_context(program(__name__, address, *words)) for _ in range(CLIENTS)]

        subjects = {wire: clients(address, "call") for wire, address in addresses.items()}
        size = next(iter(subjects.values()))[0].greeting["request_bytes"]
        yield OpenLoop(subjects=subjects, echo=clients(yardstick, "echo", str(size)))


if __name__ == "__main__":
    main()
