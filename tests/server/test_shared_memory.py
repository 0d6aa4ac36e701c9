"""The shared-memory socket: one request, one answer, and a time limit for every client."""

import asyncio
import fcntl
import os
import socket
from collections.abc import AsyncIterator

import pytest

from opserve_server import shared_memory as shared_memory_module
from opserve_server.core.directory import Directory
from opserve_server.core.observations import CallEnded, Observation
from opserve_server.core.principal import LOCAL
from opserve_server.guard import Guard
from opserve_server.shared_memory import (
    ANSWER,
    BUSY,
    IDLE,
    LATER,
    REFUSED,
    REQUEST,
    serve_shared_memory,
)
from server.core import every_command as c
from server.core.caller import SIZE, Caller
from server.guards import keyless_guard, principal, record

NAME = "0123456789abcdef" * 2
LIMIT = 4
KEY = record("opserve_", principal("lab"))
KEYED = Directory(tenants={}, keys={KEY.sha256: KEY}, certificates={})
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@pytest.fixture
def guard() -> Guard:
    return keyless_guard()


@pytest.fixture
async def caller(guard: Guard) -> AsyncIterator[Caller]:
    caller = Caller()
    await caller.open()
    socket_name = serve_shared_memory(
        caller.service, guard, NAME, requests_limit=LIMIT, request_timeout_s=60
    )
    with socket_name:
        yield caller
    await caller.service.stop()
    caller.device.slabs.close()


def connected(socket_name: str = NAME) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(300)
    end.connect(f"\0opserve-{socket_name}")
    return end


def has_hung_up(end: socket.socket) -> bool:
    with end:
        end.settimeout(0)
        try:
            return end.recv(1) == b""
        except BlockingIOError:
            return False


async def ask(
    caller: Caller, buffer: int, *, session: str = "", token: str = "", socket_name: str = NAME
) -> tuple[bytes, list[int]]:
    with connected(socket_name) as end:
        shown = [bytes.fromhex(part) for part in (session or caller.name, token or caller.token)]
        end.send(REQUEST.pack(*shown, buffer))
        answer, fds, _, _ = await asyncio.to_thread(socket.recv_fds, end, ANSWER.size, 1)
        return answer, fds


async def test_a_buffer_is_answered_with_its_slab_which_cannot_be_resized(
    caller: Caller,
) -> None:
    await caller.buffer()
    buffer = await caller.buffer(SIZE)
    await caller.run(c.Fill(buffer=buffer, size_bytes=SIZE, value=9))
    answer, (fd,) = await ask(caller, buffer)
    with os.fdopen(fd, "rb+", buffering=0) as slab:
        state, _, slab_bytes, offset, size_bytes = ANSWER.unpack(answer)
        assert (state, offset, size_bytes) == (IDLE, SIZE, SIZE)
        assert os.pread(fd, size_bytes, offset) == b"\x09" * SIZE
        assert os.fstat(fd).st_size == slab_bytes
        for size in (0, slab_bytes + 1):
            with pytest.raises(PermissionError):
                slab.truncate(size)
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) == SEALS
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


async def test_queued_work_is_reported(caller: Caller) -> None:
    planned = await caller.plan()
    (column, image) = (1, 2)
    workspace = await caller.buffer(200 * 1024)  # in a slab of its own
    await caller.run(c.Execute(executor=planned.executor, workspace=workspace))
    answer, (fd,) = await ask(caller, image)
    os.close(fd)
    assert ANSWER.unpack(answer)[0] == BUSY
    assert (await ask(caller, workspace)) == (ANSWER.pack(LATER, 0, 0, 0, 0), [])
    caller.device.auto = True
    caller.device.finish(caller.device.held[0])
    await caller.run(c.SynchronizeStream())
    answer, (fd,) = await ask(caller, column)
    os.close(fd)
    assert ANSWER.unpack(answer)[0] == IDLE


async def test_missing_objects_are_refused_alike(caller: Caller) -> None:
    buffer = await caller.buffer()
    refused: tuple[bytes, list[int]] = (ANSWER.pack(REFUSED, 0, 0, 0, 0), [])
    assert await ask(caller, buffer, session="f" * 32) == refused
    assert await ask(caller, buffer, token="f" * 32) == refused
    assert await ask(caller, buffer + 1) == refused
    await caller.service.close_session(LOCAL, caller.name)
    assert await ask(caller, buffer) == refused


async def test_the_guard_checks_the_owner_and_a_refused_one_gets_the_same_answer(
    caller: Caller, guard: Guard
) -> None:
    buffer = await caller.buffer()
    _, (fd,) = await ask(caller, buffer)
    os.close(fd)
    guard.refresh(KEYED)
    assert await ask(caller, buffer) == (ANSWER.pack(REFUSED, 0, 0, 0, 0), [])


async def test_a_request_is_a_call_that_observers_see(caller: Caller) -> None:
    seen: list[tuple[str, str, str]] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, CallEnded):
            call = observation.call
            seen.append((call.api, call.method, call.outcome))

    caller.service.observe = observe
    buffer = await caller.buffer()
    _, (fd,) = await ask(caller, buffer)
    os.close(fd)
    await ask(caller, buffer, token="f" * 32)
    assert seen == [
        ("local", "MapBuffer", "OK"),
        ("local", "MapBuffer", "ACL_ERROR_RT_INVALID_HANDLE"),
    ]


@pytest.mark.parametrize("request_bytes", [1, REQUEST.size - 1, REQUEST.size + 1, 4096])
async def test_another_form_gets_no_answer(caller: Caller, request_bytes: int) -> None:
    with connected() as end:
        end.send(bytes(request_bytes))
        assert await asyncio.to_thread(end.recv, 1) == b""
    assert len((await ask(caller, 1))[0]) == ANSWER.size, "others are answered"


async def test_a_client_that_sends_no_request_is_disconnected(caller: Caller, guard: Guard) -> None:
    short = NAME[::-1]
    with (
        serve_shared_memory(
            caller.service, guard, short, requests_limit=LIMIT, request_timeout_s=0.2
        ),
        connected(short) as end,
    ):
        assert await asyncio.to_thread(end.recv, 1) == b""


async def test_no_user_keeps_others_from_shared_memory(
    caller: Caller, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, users = await caller.buffer(), iter([1, 2, 2, 2, 1])

    def user_of(_: socket.socket) -> int:
        return next(users)

    monkeypatch.setattr(shared_memory_module, "_user_of", user_of)
    patient = NAME[::-1]
    service = caller.service
    with serve_shared_memory(service, guard, patient, requests_limit=LIMIT, request_timeout_s=60):
        silent = [connected(patient) for _ in range(LIMIT)]
        answer, (fd,) = await ask(caller, buffer, socket_name=patient)
        os.close(fd)
        hung_up = [has_hung_up(end) for end in silent]
    assert ANSWER.unpack(answer)[0] == IDLE
    assert hung_up == [False, True, False, False], "the eldest of the user with most"


async def test_a_user_is_identified_by_the_system(caller: Caller) -> None:
    del caller
    with connected() as end:
        assert shared_memory_module._user_of(end) == os.getuid()
