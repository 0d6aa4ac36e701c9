"""The local lane: one request, one answer, and patience with nobody."""

import asyncio
import fcntl
import os
import socket
from collections.abc import AsyncIterator

import pytest

from opserve_server import local_lane as lane_module
from opserve_server.core import commands as c
from opserve_server.core.principal import LOCAL
from opserve_server.local_lane import ANSWER, BUSY, IDLE, LATER, REFUSED, REQUEST, local_lane
from server.core.caller import SIZE, Caller

NAME = "0123456789abcdef" * 2
LIMIT = 4
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    caller = Caller()
    await caller.open()
    with local_lane(caller.service, NAME, requests_limit=LIMIT, request_timeout_s=0.2):
        yield caller
    await caller.service.stop()
    caller.device.slabs.close()


def connected(lane: str = NAME) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(30)
    end.connect(f"\0opserve-{lane}")
    return end


def has_hung_up(end: socket.socket) -> bool:
    with end:
        end.settimeout(0)
        try:
            return end.recv(1) == b""
        except BlockingIOError:
            return False


async def ask(session: str, buffer: int, lane: str = NAME) -> tuple[bytes, list[int]]:
    with connected(lane) as end:
        end.send(REQUEST.pack(bytes.fromhex(session), buffer))
        answer, fds, _, _ = await asyncio.to_thread(socket.recv_fds, end, ANSWER.size, 1)
        return answer, fds


async def test_a_buffer_is_answered_with_its_slab_and_nobody_can_resize_that(
    caller: Caller,
) -> None:
    await caller.buffer()
    buffer = await caller.buffer(SIZE)
    await caller.run(c.Fill(buffer=buffer, size_bytes=SIZE, value=9))
    answer, (fd,) = await ask(caller.name, buffer)
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


async def test_queued_work_is_told(caller: Caller) -> None:
    planned = await caller.plan()
    (column, image) = (1, 2)
    workspace = await caller.buffer(200 * 1024)  # in a slab of its own
    await caller.run(c.Execute(executor=planned.executor, workspace=workspace))
    answer, (fd,) = await ask(caller.name, image)
    os.close(fd)
    assert ANSWER.unpack(answer)[0] == BUSY
    assert (await ask(caller.name, workspace)) == (ANSWER.pack(LATER, 0, 0, 0, 0), [])
    caller.device.auto = True
    caller.device.finish(caller.device.held[0])
    await caller.run(c.SynchronizeStream())
    answer, (fd,) = await ask(caller.name, column)
    os.close(fd)
    assert ANSWER.unpack(answer)[0] == IDLE


async def test_what_is_not_there_is_refused_all_alike(caller: Caller) -> None:
    buffer = await caller.buffer()
    refused: tuple[bytes, list[int]] = (ANSWER.pack(REFUSED, 0, 0, 0, 0), [])
    assert await ask("f" * 32, buffer) == refused
    assert await ask(caller.name, buffer + 1) == refused
    await caller.service.close_session(LOCAL, caller.name)
    assert await ask(caller.name, buffer) == refused


@pytest.mark.parametrize("request_bytes", [1, REQUEST.size - 1, REQUEST.size + 1, 4096])
async def test_another_form_gets_no_answer(caller: Caller, request_bytes: int) -> None:
    with connected() as end:
        end.send(bytes(request_bytes))
        assert await asyncio.to_thread(end.recv, 1) == b""
    assert len((await ask(caller.name, 1))[0]) == ANSWER.size, "others are answered"


async def test_a_client_that_does_not_ask_is_hung_up(caller: Caller) -> None:
    with connected() as end:
        assert await asyncio.to_thread(end.recv, 1) == b""
    assert caller.name


async def test_no_user_keeps_others_from_the_lane(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, users = await caller.buffer(), iter([1, 2, 2, 2, 1])
    monkeypatch.setattr(lane_module, "_user_of", lambda _: next(users))
    patient = NAME[::-1]
    with local_lane(caller.service, patient, requests_limit=LIMIT, request_timeout_s=60):
        silent = [connected(patient) for _ in range(LIMIT)]
        answer, (fd,) = await ask(caller.name, buffer, lane=patient)
        os.close(fd)
        hung_up = [has_hung_up(end) for end in silent]
    assert ANSWER.unpack(answer)[0] == IDLE
    assert hung_up == [False, True, False, False], "the eldest of the user with most"


async def test_a_user_is_who_the_system_says(caller: Caller) -> None:
    del caller
    with connected() as end:
        assert lane_module._user_of(end) == os.getuid()
