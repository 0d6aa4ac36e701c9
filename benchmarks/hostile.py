"""A hostile tenant in a separate process: attacks on a service by a caller with an API key."""

import asyncio
import io
import json
import os
import random
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from benchmarks.giant_plans import giant_plans
from benchmarks.hostile_models import (
    DATA_AFTER_ALL,
    MODEL_INFER,
    POST_INFER,
    infer_bodies,
    infer_messages,
)
from benchmarks.http2 import announced, http2
from benchmarks.long_calls import long_call, queue_calls
from benchmarks.tenant_load import write_line
from benchmarks.wire import ANSWER_S, Answers, Host, Wire
from opserve.v1 import memory_service_pb2 as memory
from opserve.v1 import operator_service_pb2 as operators
from opserve.v1 import session_service_pb2 as sessions
from opserve.v1 import stream_service_pb2 as streams
from opserve.v1.im2col_backward_pb2 import Im2colBackward as Im2colArguments
from opserve.v1.tensor_pb2 import DATA_TYPE_FLOAT, FORMAT_ND, Int64Array, Tensor
from opserve_client import AsyncClient, AsyncSession, OpserveError
from opserve_client.private_service import Addresses
from opserve_client.wire import methods
from opserve_server.core.keys import new_key

CALLS_AT_ONCE = 20
"""Calls of a burst: those of a tenth of a second at twice the rate of the quota."""
PAUSE_S = 0.1
"""Time between two bursts, as an attacker over a network is slower than the service."""
HELD_S = 0.5
"""Time for which connections and streams stay open."""
CONNECTIONS = 50
MIB = 2**20
POST_SESSION = "POST /v1/sessions HTTP/1.1\r\nContent-Type: application/json"
HUGE = (2**31, 2**62, 2**63 - 1)
NESTED = 20_000
"""Depth of a JSON body."""
LEASE_S = 5.0
"""Lease of sessions that the tenant cannot close, because it exceeds its rate of calls."""
CLIENT_S = 10.0
QUEUED = 40
"""Long calls on each stream."""
STREAMS = 4
WAITS = 60
UNREAD, UNREAD_EDGE = 12, 1024
"""Whole calls with unread answers, and the edge of each answer's image: 4 MiB."""
FLOOD_EDGE = 256
WHOLE_CALL = "/v1/operators/aclnnIm2colBackward:run"
UNAUTHENTICATED_STREAMS = 200
HALF_MESSAGES = 30
HEALTH_CHECK, HEALTH_WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
NICENESS = 19
"""Niceness of the process: a real attacker uses processors of another machine."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """The attacks of a hostile tenant.

    Attributes:
        wire: Raw requests to the service.
        session: A session of the tenant.
    """

    wire: Wire
    session: AsyncSession

    async def exceed_rate(self) -> None:
        """Makes more calls than the quota allows, on both APIs."""
        query = streams.QueryStreamRequest(session=self.session.name)
        await _at_once(
            *(self.wire.call(methods.QUERY_STREAM, query) for _ in range(CALLS_AT_ONCE)),
            *(self.wire.http("GET /v1/devices HTTP/1.1") for _ in range(CALLS_AT_ONCE // 4)),
        )

    async def request_giant_sizes(self) -> None:
        """Sends giant shapes, long lists and deep JSON, and allocates all memory of the quota."""
        await _at_once(
            *(self._plan([size] * rank) for size in HUGE for rank in (1, 4, 25)),
            self._plan([1] * 100_000),
            self.wire.call(methods.SUBMIT, b"\x12\x00" * 200_000),
            self.wire.http(POST_SESSION, b"[" * NESTED),
            self.wire.http(POST_SESSION, b'{"profile":"' + b"x" * 3 * MIB + b'"}'),
            self.wire.http(POST_SESSION, b'{"lease_s":' + b"9" * MIB + b"}"),
        )
        requests = [
            memory.AllocateRequest(session=self.session.name, size_bytes=size)
            for size in (2**62, *[8 * MIB] * 16)
        ]
        found = [await self.wire.call(methods.ALLOCATE, request) for request in requests]
        buffers = [one.buffer for one in found if one is not None]
        await _at_once(*(self._read(buffer, size_bytes=MIB) for buffer in buffers))

    async def plan_giant_convolutions(self) -> None:
        """Plans convolutions that exceed the memory of any device, or that would run for days."""
        requests = (
            operators.GetWorkspaceSizeRequest(session=self.session.name, convolution_backward=call)
            for call in giant_plans()
        )
        await _at_once(*(self.wire.call(methods.GET_WORKSPACE_SIZE, one) for one in requests))

    async def run_long_kernels(self) -> None:
        """Fills every queue of the quota with long calls."""
        await self._fill_queues()
        await asyncio.sleep(HELD_S)

    async def guess_names_and_handles(self) -> None:
        """Sends guessed names of sessions, and guessed handles."""
        names = ["", "1", self.session.name[:-1], self.session.name.upper(), "../" * 9]
        names += [secrets.token_urlsafe(16) for _ in range(4)]
        calls = [
            call
            for name in names
            for call in (
                self.wire.call(methods.GET_SESSION, sessions.GetSessionRequest(session=name)),
                self.wire.call(methods.CLOSE_SESSION, sessions.CloseSessionRequest(session=name)),
                self.wire.call(methods.FREE, memory.FreeRequest(session=name, buffer=1)),
                self._read(1, size_bytes=64, session=name),
            )
        ]
        foreign = (random.randrange(1, 2**32) for _ in range(9))  # noqa: S311  # no secret
        await _at_once(*calls, *(self._read(handle, size_bytes=64) for handle in foreign))

    async def read_and_write_slowly(self) -> None:
        """Reads only the first bytes of downloads, and sends only the first byte of bodies."""
        buffer = await self.session.allocate(16 * MIB)
        half = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4096\r\n"
        name, value = self.wire.authorization()
        beginning = f"{half}{name}: {value}\r\n\r\n{{".encode()
        await _at_once(
            *(self._read(buffer.handle, size_bytes=16 * MIB, held_s=HELD_S) for _ in range(8)),
            *(self.wire.hold(self.wire.rest, beginning, held_s=HELD_S) for _ in range(8)),
        )

    async def open_half_connections(self) -> None:
        """Opens connections and sends nothing, or an incomplete preface."""
        beginnings = (b"", b"PRI * HTTP/2.0\r\n", b"GET /v1/devices HTTP/1.1\r\nHo")
        apis = (self.wire.grpc, self.wire.rest)
        places = range(CONNECTIONS)
        await _at_once(
            *(self.wire.hold(apis[n % 2], beginnings[n % 3], held_s=HELD_S) for n in places)
        )

    async def guess_keys(self) -> None:
        """Sends well-formed and malformed API keys."""
        keys = [*(new_key() for _ in range(6)), "", "x" * 4000, self.wire.key[:-1], "\u00e9"]
        request = sessions.ListDevicesRequest()
        listing = "GET /v1/devices HTTP/1.1"
        ascii_keys = [key for key in keys if key.isascii()]
        await _at_once(
            *(self.wire.call(methods.LIST_DEVICES, request, key=key) for key in ascii_keys),
            *(self.wire.http(listing, key=key) for key in keys),
        )

    async def send_malformed_messages(self) -> None:
        """Sends bytes that are invalid in each protocol."""
        chance = random.Random(1)  # noqa: S311  # no secret
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        frames = (
            b"\xff\xff\xff" + bytes(6),
            bytes(3) + b"\xff\xff" + bytes(4),
            chance.randbytes(99),
        )
        chunked = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        sizes = (b"FFFFFFFFFFFFFFFFF\r\n", b"-1\r\n", b"1\r\nab\r\n", b"\r\n")
        await _at_once(
            *(self.wire.bytes_to(self.wire.grpc, preface + bytes(9) + frame) for frame in frames),
            *(self.wire.bytes_to(self.wire.rest, chunked + size) for size in sizes),
            *(
                self.wire.bytes_to(api, chance.randbytes(4096))
                for api in (self.wire.grpc, self.wire.rest)
            ),
            *(self.wire.call(methods.SUBMIT, chance.randbytes(size)) for size in (1, 100, 10_000)),
            self.wire.call(methods.ALLOCATE, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        )

    async def send_huge_headers(self) -> None:
        """Sends headers above every limit, and many headers."""
        query = sessions.ListDevicesRequest()
        large = [("x-large", "x" * size) for size in (4000, 15_000, 60_000)]
        many = "".join(f"X-{n}: {n}\r\n" for n in range(2000))
        listing = b"GET /v1/devices HTTP/1.1\r\nHost: localhost\r\n"
        await _at_once(
            *(self.wire.call(methods.LIST_DEVICES, query, headers=[one]) for one in large),
            self.wire.call(methods.LIST_DEVICES, query, headers=large[:1] * 3),
            self.wire.bytes_to(self.wire.rest, listing + many.encode() + b"\r\n"),
            self.wire.bytes_to(self.wire.rest, listing + b"X: " + b"y" * 200_000),
        )

    async def open_many_streams(self) -> None:
        """Holds many watches open in one connection, and cancels calls at once."""
        watch = streams.WatchStreamRequest(session=self.session.name)
        waiting = streams.SynchronizeStreamRequest(session=self.session.name, timeout_ms=500)
        await _at_once(
            *(self.wire.stream(methods.WATCH_STREAM, watch, held_s=HELD_S) for _ in range(WAITS))
        )
        for _ in range(WAITS):
            call = asyncio.ensure_future(self.wire.call(methods.SYNCHRONIZE_STREAM, waiting))
            await asyncio.sleep(0)
            call.cancel()

    async def wait_in_many_calls(self) -> None:
        """Makes many calls that wait for long work of the tenant."""
        queues = await self._fill_queues()
        wait = streams.SynchronizeStreamRequest(
            session=self.session.name, stream=queues[0], timeout_ms=round(HELD_S * 1e3)
        )
        await _at_once(*(self.wire.call(methods.SYNCHRONIZE_STREAM, wait) for _ in range(WAITS)))

    async def leave_answers_unread(self) -> None:
        """Makes whole calls with few compressed bytes, and leaves their large answers unread."""
        call = _whole_call(UNREAD_EDGE)
        await _at_once(
            *(self.wire.post_files(WHOLE_CALL, call, held_s=HELD_S) for _ in range(UNREAD))
        )

    async def flood_with_whole_calls(self) -> None:
        """Makes more whole calls at once than the service runs and queues."""
        call = _whole_call(FLOOD_EDGE)
        await _at_once(*(self.wire.post_files(WHOLE_CALL, call) for _ in range(WAITS)))

    async def call_models(self) -> None:
        """Calls models with giant shapes, long lists and deep JSON, over both wires."""
        await _at_once(
            *(self.wire.http(POST_INFER, body) for body in infer_bodies()),
            *(self.wire.send(MODEL_INFER, message) for message in infer_messages()),
            self.wire.http(DATA_AFTER_ALL, b"{}" + bytes(3 * MIB)),
        )

    async def open_unauthenticated_streams(self) -> None:
        """Holds watches of the health service open without a key, and calls without a message."""
        async with http2(*self.wire.grpc) as connection:
            for _ in range(UNAUTHENTICATED_STREAMS):
                await connection.send(connection.begin(HEALTH_WATCH), announced(0))
                connection.begin(HEALTH_CHECK)
            await asyncio.sleep(HELD_S)

    async def send_half_messages(self) -> None:
        """Sends large messages without their last byte, with and without an API key."""
        half = announced(4 * MIB) + bytes(4 * MIB - 1)
        async with http2(*self.wire.grpc) as connection:
            own = self.wire.authorization()
            begun = [connection.begin(HEALTH_CHECK) for _ in range(HALF_MESSAGES // 2)]
            begun += [connection.begin(methods.SUBMIT.path, own) for _ in range(HALF_MESSAGES // 2)]
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await _at_once(*(connection.send(stream, half) for stream in begun))
            await asyncio.sleep(HELD_S)

    async def _fill_queues(self) -> list[int]:
        """Creates streams with long work; returns their handles."""
        executor = await long_call(self.session)
        queues = [(await self.session.create_stream()).handle for _ in range(STREAMS)]
        for stream in queues:
            await queue_calls(self.session, executor, stream=stream, count=QUEUED)
        return queues

    async def _plan(self, shape: Sequence[int]) -> None:
        one = Int64Array(values=[1, 1])
        tensor = Tensor(shape=shape, dtype=DATA_TYPE_FLOAT, format=FORMAT_ND)
        call = Im2colArguments(
            grad_output=tensor,
            input_size=Int64Array(values=shape),
            kernel_size=one,
            dilation=one,
            padding=one,
            stride=one,
            out=tensor,
        )
        request = operators.GetWorkspaceSizeRequest(session=self.session.name, im2col_backward=call)
        await self.wire.call(methods.GET_WORKSPACE_SIZE, request)

    async def _read(
        self, buffer: int, *, size_bytes: int, session: str | None = None, held_s: float = 0.0
    ) -> None:
        request = memory.ReadRequest(
            session=self.session.name if session is None else session,
            buffer=buffer,
            size_bytes=size_bytes,
        )
        await self.wire.stream(methods.READ, request, held_s=held_s)


def _whole_call(edge: int) -> dict[str, bytes]:
    """Returns the parts of a one-shot call that folds columns, which are compressed."""
    columns = io.BytesIO()
    np.savez_compressed(columns, columns=np.zeros((1, edge * edge), np.float32))
    one = {name: [1, 1] for name in ("kernel_size", "dilation", "stride")}
    given = {"grad_output": {"array": "columns"}, "input_size": [edge, edge], "padding": [0, 0]}
    args = json.dumps({"arguments": given | one})
    return {"args": args.encode(), "tensors": columns.getvalue()}


async def _at_once(*behaviours: Awaitable[object]) -> None:
    """Runs all of them at the same time."""
    await asyncio.gather(*behaviours)


BEHAVIOURS: Mapping[str, Callable[[Hostile], Awaitable[None]]] = {
    "calls above its rate": Hostile.exceed_rate,
    "giant shapes and allocations": Hostile.request_giant_sizes,
    "giant plans": Hostile.plan_giant_convolutions,
    "long kernels": Hostile.run_long_kernels,
    "guesses of names and handles": Hostile.guess_names_and_handles,
    "slow reads and writes": Hostile.read_and_write_slowly,
    "half-open connections": Hostile.open_half_connections,
    "guesses of keys": Hostile.guess_keys,
    "malformed messages": Hostile.send_malformed_messages,
    "huge headers": Hostile.send_huge_headers,
    "many streams": Hostile.open_many_streams,
    "many waiting calls": Hostile.wait_in_many_calls,
    "unread answers": Hostile.leave_answers_unread,
    "one-shot flood": Hostile.flood_with_whole_calls,
    "calls of models": Hostile.call_models,
    "unauthenticated streams": Hostile.open_unauthenticated_streams,
    "half messages": Hostile.send_half_messages,
}
"""Attacks by name."""


@asynccontextmanager
async def attacker(addresses: Addresses, key: str, answers: Answers) -> AsyncGenerator["Attacker"]:
    """Connects an attacker until the block ends."""
    grpc_host, rest_host = host_of(addresses.grpc), host_of(addresses.rest)
    async with (
        grpc.aio.insecure_channel(addresses.grpc) as channel,
        AsyncClient(addresses.grpc, api_key=key, timeout_s=CLIENT_S) as client,
    ):
        wire = Wire(channel, grpc=grpc_host, rest=rest_host, key=key, answers=answers)
        yield Attacker(client, wire)


@dataclass(frozen=True, slots=True)
class Attacker:
    """Runs behaviours of the hostile tenant, each in a new session."""

    client: AsyncClient
    wire: Wire

    async def burst(self, name: str) -> None:
        """Runs a behaviour once, until the service rejects it."""
        try:
            async with self.client.open_session(lease_s=LEASE_S) as session:
                await BEHAVIOURS[name](Hostile(self.wire, session))
        except OpserveError as error:
            self.wire.answers.keep(repr(error))

    async def attack(self, names: Sequence[str], *, seconds: float) -> int:
        """Runs several behaviours at the same time repeatedly; returns the number of bursts."""
        time = asyncio.get_running_loop().time
        until_s = time() + seconds
        bursts = 0

        async def repeat(name: str) -> None:
            nonlocal bursts
            while time() < until_s:
                await self.burst(name)
                bursts += 1
                await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*map(repeat, names))
        return bursts


def host_of(address: str) -> Host:
    """Returns the host and port of an API's address."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    return host, int(port)


async def serve(addresses: Addresses, file: Path) -> None:
    """Attacks once for each line of standard input."""
    os.nice(NICENESS)
    with file.open("wb") as opened:
        async with attacker(addresses, os.environ["OPSERVE_API_KEY"], Answers(opened)) as found:
            write_line({"ready": True})
            while line := await asyncio.to_thread(sys.stdin.readline):
                write_line({"bursts": await found.attack(**json.loads(line))})


if __name__ == "__main__":
    asyncio.run(serve(Addresses(grpc=sys.argv[1], rest=sys.argv[2]), Path(sys.argv[3])))
