"""gRPC and Connect under requests that no client writes: refused clearly, and nothing is left.

`make fuzz` sends more: OPSERVE_FUZZ_TIMES is the factor, OPSERVE_FUZZ_SEED the seed.
"""

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx2
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor

from benchmarks.census import census
from fuzz.mutations import broken, fill, made
from opserve.v1 import command_service_pb2 as command_pb
from opserve.v1 import memory_service_pb2 as memory_pb
from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1 import session_service_pb2 as session_pb
from opserve_client.private_service import Addresses
from opserve_server.grpc_api.open_inference import SERVICE as OPEN_INFERENCE
from server.connect_api.frames import framed, parted
from server.entry_points import every_rpc
from system.drills import own_process

TIMES = int(os.environ.get("OPSERVE_FUZZ_TIMES", "1"))
ROUNDS = 500 * TIMES
"""Of 8 requests each; their number depends on no clock, so that a seed means the same requests."""
SEED = int(os.environ.get("OPSERVE_FUZZ_SEED", "6"))
pytestmark = [pytest.mark.system, pytest.mark.timeout(600 + 60 * TIMES)]
LIMITS = {
    "devices": '["ascend910b", "ascend310p", "ft78ne"]',
    "device_memory_bytes": str(2**26),
    "slab_bytes": str(2**20),
    "sessions_limit": "32",
    "lease_maximum_s": "5",
    "lease_default_s": "5",
    "wait_limit_s": "0.2",
    "watch_limit_s": "0.2",
    "call_time_limit_s": "2",
    "chunk_bytes": str(2**18),
    "log_level": "WARNING",
}
GROWTH_MIB = 200
ANSWER_S = 300.0
"""Seconds after which a call hangs, on any machine."""
PROFILES = ("ascend910b", "ascend310p", "ft78ne")
WRONG = {"UNKNOWN", "CANCELLED", "UNAVAILABLE"}
"""Codes that no request may end in; INTERNAL is for kernels that fail, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The code of a call, its text where it failed, and the last message of its answer."""

    code: str
    text: str = ""
    message: bytes = b""


Send = Callable[[MethodDescriptor, str, bytes], Awaitable[Answer]]
"""Calls an RPC with a request in a form."""


@dataclass
class Fuzzer:
    """Sends requests of one seed, in some forms."""

    send: Send
    forms: tuple[str, ...]
    methods: Sequence[MethodDescriptor]
    source: random.Random
    sessions: list[str] = field(default_factory=list[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    async def begin(self) -> None:
        """A session on each profile, with a few handles in it."""
        self.sessions.clear()
        for profile in PROFILES:
            opening = session_pb.OpenSessionRequest(profile=profile, lease_s=5)
            answer = await self.call(OPEN, opening.SerializeToString())
            self.sessions.append(session_pb.OpenSessionResponse.FromString(answer).session)
        for session in self.sessions:
            for _ in range(3):
                request = memory_pb.AllocateRequest(session=session, size_bytes=2**16)
                await self.call(RPCS["Allocate"], request.SerializeToString())
            await self.call(RPCS["CreateStream"], _of(RPCS["CreateStream"], session))
            await self.call(RPCS["CreateEvent"], _of(RPCS["CreateEvent"], session))

    async def end(self) -> None:
        for session in self.sessions:
            await self.call(RPCS["CloseSession"], _of(RPCS["CloseSession"], session))

    async def step(self) -> None:
        """One request, whole or broken."""
        rpc = self.source.choice(self.methods)
        session = self.source.choice(self.sessions)
        known: Mapping[str, object] = {
            "session": session,
            "request_id": "",
            "lease_s": 2.0,
            "model_name": "aclnnIm2colBackward",
            "datatype": "FP32",
        }
        message = made(rpc.input_type)
        fill(message, self.source, keep=known.get)
        form = self.source.choice(self.forms)
        data = message.SerializeToString()
        if form == "json":
            data = json_format.MessageToJson(message).encode()
        if self.source.random() < 0.4:
            data = broken(data, self.source)
        await self.call(rpc, data, form=form)

    async def call(self, rpc: MethodDescriptor, data: bytes, *, form: str = "proto") -> bytes:
        """The last answer, or nothing."""
        began = time.monotonic()
        answer = await self.send(rpc, form, data)
        late = time.monotonic() - began >= ANSWER_S
        unexpected = answer.code == "INTERNAL" and "The service failed" in answer.text
        if late or answer.code in WRONG or unexpected:
            fault = f"{rpc.name}: {answer.code} {answer.text} of {data[:400].hex()}"
            self.faults.append(fault)
        self.codes[answer.code] += 1
        return answer.message


@asynccontextmanager
async def over_grpc(addresses: Addresses, source: random.Random) -> AsyncGenerator[Fuzzer]:
    async with grpc.aio.insecure_channel(addresses.grpc) as channel:

        async def send(rpc: MethodDescriptor, _: str, data: bytes) -> Answer:
            kind = ("stream" if rpc.client_streaming else "unary") + "_"
            kind += "stream" if rpc.server_streaming else "unary"
            method: Any = getattr(channel, kind)(path_of(rpc))
            call = method(iter([data, data]) if rpc.client_streaming else data, timeout=ANSWER_S)
            last = b""
            try:
                if rpc.server_streaming:
                    async for last in call:  # noqa: B007  # the last one
                        pass
                else:
                    last = await call
            except grpc.aio.AioRpcError as error:
                return Answer(code=error.code().name, text=f"{error.details()}")
            return Answer(code="OK", message=last)

        yield Fuzzer(send, ("proto",), (*METHODS, *MODEL_METHODS), source)


@asynccontextmanager
async def over_connect(addresses: Addresses, source: random.Random) -> AsyncGenerator[Fuzzer]:
    async with httpx2.AsyncClient(base_url=addresses.rest, timeout=ANSWER_S) as http:

        async def send(rpc: MethodDescriptor, form: str, data: bytes) -> Answer:
            streams = rpc.client_streaming or rpc.server_streaming
            headers = {"content-type": f"application/{'connect+' * streams}{form}"}
            content = framed(data) if streams else data
            answer = await http.post(path_of(rpc), content=content, headers=headers)
            messages: list[bytes] = [answer.content]
            error: dict[str, Any] = {}
            if streams:
                messages, end = parted(answer.content)
                error = end.get("error", {})
            elif answer.status_code != 200:
                error = answer.json()
            if error:
                return Answer(code=error["code"].upper(), text=error["message"])
            return Answer(code="OK", message=messages[-1] if messages else b"")

        yield Fuzzer(send, ("proto", "json"), METHODS, source)


def path_of(rpc: MethodDescriptor) -> str:
    return f"/{rpc.containing_service.full_name}/{rpc.name}"


def _rpcs() -> Iterator[tuple[str, MethodDescriptor]]:
    for rpc in every_rpc():
        yield rpc.name, rpc


RPCS = dict(_rpcs())
OPEN = RPCS["OpenSession"]
METHODS = [
    *(rpc for rpc in RPCS.values() if rpc.name != "CloseSession"),
    *[RPCS["GetWorkspaceSize"]] * 20,
    *[RPCS["Submit"]] * 10,
]
MODEL_METHODS = [
    rpc for rpc in OPEN_INFERENCE.methods for _ in range(1 + 9 * (rpc.name == "ModelInfer"))
]


def _of(rpc: MethodDescriptor, session: str) -> bytes:
    return made(rpc.input_type, session=session).SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("connected", [over_grpc, over_connect])
async def test_no_request_breaks_the_service(
    connected: Callable[[Addresses, random.Random], AbstractAsyncContextManager[Fuzzer]],
) -> None:
    source = random.Random(SEED)  # noqa: S311  # not for secrets
    sys.stdout.write(f"seed {SEED}, {ROUNDS} rounds\n")
    async with own_process(**LIMITS) as (process, addresses):
        async with connected(addresses, source) as fuzzer:
            await fuzzer.begin()
            before = census(process.pid).front_mib
            for _ in range(ROUNDS):
                if fuzzer.faults:
                    break
                await asyncio.gather(*(fuzzer.step() for _ in range(8)))
                if source.random() < 0.02:
                    await fuzzer.end()
                    await fuzzer.begin()
            grown = census(process.pid).front_mib - before
            assert fuzzer.faults == []
            assert process.returncode is None
            assert grown < GROWTH_MIB, f"{grown} MiB"
            assert fuzzer.codes["OK"] > 50
            assert fuzzer.codes["INVALID_ARGUMENT"] > 50
            await _everything_is_given_back(fuzzer)
        sys.stdout.write(f"{dict(fuzzer.codes)}, {grown:.0f} MiB\n")


async def _everything_is_given_back(fuzzer: Fuzzer) -> None:
    """All memory is free once the leases of what was opened have ended."""
    while True:  # the test's own limit ends it
        answer = await fuzzer.call(RPCS["ListDevices"], b"")
        devices = session_pb.ListDevicesResponse.FromString(answer).devices
        if all(one.free_memory_bytes == one.memory_bytes and one.ready for one in devices):
            return
        await asyncio.sleep(0.1)


def test_the_fuzzer_reaches_every_message() -> None:
    assert {"Submit", "GetWorkspaceSize", "Write", "WatchStream"} <= RPCS.keys()
    source = random.Random(SEED)  # noqa: S311  # not for secrets
    message = made(operator_pb.GetWorkspaceSizeRequest.DESCRIPTOR)
    seen: set[str] = set()
    for _ in range(1000):
        message.Clear()
        fill(message, source, keep=lambda _: None)
        seen |= {described.name for described, _ in message.ListFields()}
    assert seen == {described.name for described in message.DESCRIPTOR.fields}
    infer = made(OPEN_INFERENCE.methods_by_name["ModelInfer"].input_type)
    for _ in range(100):
        fill(infer, source, keep=lambda _: None)
        seen |= {described.name for described, _ in infer.ListFields()}
    assert {"raw_input_contents", "parameters", "inputs"} <= seen
    assert command_pb.SubmitRequest.DESCRIPTOR is RPCS["Submit"].input_type
