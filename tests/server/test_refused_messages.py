"""Refused messages are released at once: in a cycle they would wait for a rare collection."""

import gc
import json
from collections.abc import Generator
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf.message import Message

from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.memory_service_pb2 import WriteRequest
from opserve.v1.operator_service_pb2 import ExecuteRequest
from server.entry_points import (
    EntryPoints,
    every_route,
    every_rpc,
    opened_by,
    request_in,
)
from server.guards import ServiceWithKeys

SIZE = 3000
NONE = "f" * 32
FILLING = b"\xc2\x3e\xb8\x17" + b"\xff" * SIZE
"""A field that no message has, of 3000 bytes."""


@contextmanager
def no_large_message_in_a_cycle() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        owners = [one for one in gc.garbage if not type(one).__module__.startswith("httpx2")]
        kept = [(owner, one) for owner in owners for one in gc.get_referents(owner)]
        large = [f"{owner!r:.200}" for owner, one in kept if size_of(one) >= SIZE]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not large


def size_of(one: object) -> int:
    if isinstance(one, Message):
        return one.ByteSize()
    return len(one) if isinstance(one, str | bytes | bytearray) else 0


@pytest.mark.parametrize("wire", ["gRPC", "Connect"])
async def test_no_refused_request_is_kept_by_its_error(
    shared: tuple[EntryPoints, ServiceWithKeys], wire: str
) -> None:
    entry_points, with_keys = shared
    answer = entry_points.grpc_answer if wire == "gRPC" else entry_points.connect_answer
    with no_large_message_in_a_cycle():
        for rpc in every_rpc():
            named = request_in(rpc, NONE)
            for request in (b"\xff" * SIZE, b"" if named is None else named.SerializeToString()):
                for key in (with_keys.lab, None):
                    await answer(rpc, request + FILLING, key)


async def test_no_failed_command_is_kept_by_its_error(
    shared: tuple[EntryPoints, ServiceWithKeys],
) -> None:
    entry_points, with_keys = shared
    session = await opened_by(entry_points, with_keys.lab)
    commands = [
        Command(write=WriteRequest(buffer=99, size_bytes=SIZE, data=b"x" * SIZE)),
        Command(execute=ExecuteRequest(executor=99, stream=99)),
    ]
    rpc = next(rpc for rpc in every_rpc() if rpc.name == "Submit")
    request = SubmitRequest(session=session, commands=commands).SerializeToString()
    with no_large_message_in_a_cycle():
        for answer in (entry_points.grpc_answer, entry_points.connect_answer):
            code, _ = await answer(rpc, request, with_keys.lab)
            assert code in {grpc.StatusCode.OK, "ok"}


@pytest.mark.parametrize(
    "body", [b"[" * SIZE, json.dumps({"none": "f" * SIZE}).encode()], ids=["unreadable", "unknown"]
)
async def test_no_refused_body_is_kept_by_its_error(
    shared: tuple[EntryPoints, ServiceWithKeys], body: bytes
) -> None:
    entry_points, with_keys = shared
    key = {"authorization": f"Bearer {with_keys.lab}", "content-type": "application/json"}
    with no_large_message_in_a_cycle():
        for _, verb, path in every_route(session=NONE):
            await entry_points.rest.request(verb, path, content=body, headers=key)
