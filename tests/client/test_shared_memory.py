"""Shared memory in the client: mappings, or streams after a failure."""

import fcntl
import os
import secrets
import socket
import struct
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from opserve_client import shared_memory
from opserve_client.shared_memory import MappedBuffer, SharedMemory, Unmapped

SESSION = "5e" * 16
TOKEN = "70" * 16
SIZE = 8192
ANSWER = struct.Struct("!BQQQQ")
OTHER_END = "other end of the transport"


def memory(*, sealed: bool = True) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


@contextmanager
def service(answers: Sequence[tuple[bytes, int | None]]) -> Generator[SharedMemory]:
    """A transport whose other end gives these answers, and closes their descriptors."""
    name = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0opserve-{name}")
        listener.listen()

        def serve() -> None:
            for answer, fd in answers:
                end, _ = listener.accept()
                with end:
                    assert end.recv(64)[:32].hex() == SESSION + TOKEN
                    socket.send_fds(end, [answer], [] if fd is None else [fd])
                if fd is not None:
                    os.close(fd)

        thread = threading.Thread(target=serve, name=OTHER_END)
        thread.start()
        transport = SharedMemory(name, SESSION, TOKEN)
        yield transport
        thread.join(30)
        assert not thread.is_alive()
        transport.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def join_other_end() -> None:
    for thread in threading.enumerate():
        if thread.name == OTHER_END:
            thread.join(30)


def found(transport: SharedMemory, buffer: int = 1) -> MappedBuffer:
    result = transport.find(buffer)
    assert isinstance(result, MappedBuffer)
    return result


def test_two_buffers_of_a_slab_share_one_mapping() -> None:
    fd = memory()
    answers = [
        (ANSWER.pack(1, 7, SIZE, 0, 512), os.dup(fd)),
        (ANSWER.pack(2, 7, SIZE, 256, 512), os.dup(fd)),
    ]
    before = descriptors() - 2
    with service(answers) as transport:
        one, two = found(transport, 1), found(transport, 2)
        assert (one.idle, two.idle) == (True, False)
        one.content[256] = 42
        assert two.content[0] == 42
        assert os.pread(fd, 1, 256) == b"\x2a"
        transport.close()
        assert transport.find(1) is Unmapped.NEVER
        assert one.content[256] == 42, "a view outlives its transport"
        del one, two
    assert descriptors() == before
    os.close(fd)


def test_a_new_buffer_in_a_mapped_slab_needs_no_request() -> None:
    fd = memory()
    with service([(ANSWER.pack(1, 7, SIZE, 0, 512), os.dup(fd))]) as transport:
        assert transport.find_new(7, 512, 512) is None, "nothing is mapped yet"
        found(transport)
        new = transport.find_new(7, 512, 512)
        assert new is not None
        new[:] = 42
        assert os.pread(fd, 513, 511) == b"\0" + b"\x2a" * 512
        assert transport.find_new(7, SIZE - 512, 513) is None, "the slab is not that long"
        assert [transport.find_new(slab, 0, 1) for slab in (0, 8)] == [None, None]
        del new
    os.close(fd)


def test_memory_that_its_owner_could_shrink_is_not_mapped() -> None:
    answer = ANSWER.pack(1, 7, SIZE, 0, 512)
    with service([(answer, memory(sealed=False)), (answer, None), (b"?", memory())]) as transport:
        before = descriptors()
        assert [transport.find(1) for _ in range(3)] == [Unmapped.NEVER] * 3
        assert descriptors() <= before, "what came is closed"


def test_a_refusal_and_a_wait_are_distinguished() -> None:
    answers = [(ANSWER.pack(state, 0, 0, 0, 0), None) for state in (0, 3)]
    with service(answers) as transport:
        assert transport.find(1) is Unmapped.NEVER
        assert transport.find(1) is Unmapped.NOT_YET


def test_shared_memory_keeps_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_MAPPINGS_LIMIT", 2)
    answers = [(ANSWER.pack(1, slab, SIZE, 0, 512), memory()) for slab in (1, 2, 3)]
    before = descriptors() - len(answers)
    with service(answers) as transport:
        for _ in answers:
            found(transport)
        join_other_end()  # which closes a descriptor a moment after it was sent
        assert descriptors() <= before + 3, "two mappings and the listener"


def test_a_missing_listener_is_not_tried_again() -> None:
    name = secrets.token_hex(16)
    transport = SharedMemory(name, SESSION, TOKEN)
    assert transport.find(1) is Unmapped.NEVER
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0opserve-{name}")
        listener.listen()
        listener.settimeout(0)
        assert transport.find(1) is Unmapped.NEVER
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("name", ["", "x" * 32, "A" * 32, "0" * 31, "0" * 32 + "\n"])
def test_a_service_cannot_send_its_client_to_another_socket(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0opserve-{name}")
        listener.listen()
        listener.settimeout(0)
        assert SharedMemory(name, SESSION, TOKEN).find(1) is Unmapped.NEVER
        with pytest.raises(BlockingIOError):
            listener.accept()
