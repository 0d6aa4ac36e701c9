"""Shared memory: buffers of a session, mapped into a client on the service's host.

opserve_server.shared_memory describes the frames. A failure here is no error: the client then sends
the bytes by stream, and the errors of streams name the buffer or session at fault.
"""

import mmap
import os
import re
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

if sys.platform == "linux":  # other systems have neither abstract sockets nor this module
    import fcntl

_REQUEST = struct.Struct("!16s16sI")
_ANSWER = struct.Struct("!BQQQQ")
_IDLE, _LATER = 1, 3
_ANSWER_TIMEOUT_S = 2.0
_MAPPINGS_LIMIT = 64
"""Slabs that a session keeps mapped; a view keeps its slab mapped beyond that."""
_BLOCK_BYTES = 512  # the unit of st_blocks
_HEXADECIMAL = re.compile(r"[0-9a-f]{32}")

Bytes = NDArray[np.uint8]


class Unmapped(Enum):
    """Why a buffer is not mapped: it cannot be, or a call computes in its slab."""

    NEVER = auto()
    NOT_YET = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedBuffer:
    """A buffer that is mapped into this process.

    Attributes:
        content: The bytes of the buffer, writable.
        idle: Whether no queued work used the buffer when the service answered.
    """

    content: Bytes
    idle: bool


class SharedMemory:
    """The shared-memory transport of a session.

    Args:
        name: Name of the service's socket from OpenSession; "" if the service has none.
        session: Name of the session.
        token: The session's secret from OpenSession.
    """

    def __init__(self, name: str, session: str, token: str) -> None:
        # Only 32 hexadecimal digits are a name: a service cannot direct this process to the socket
        # of another program.
        usable = all(_HEXADECIMAL.fullmatch(part) for part in (name, session, token))
        self._address = f"\0opserve-{name}" if usable else None
        self._secrets = bytes.fromhex(session) + bytes.fromhex(token) if usable else b""
        self._slabs: dict[int, mmap.mmap] = {}

    def find(self, buffer: int) -> MappedBuffer | Unmapped:
        """Returns the mapped buffer, or the reason why it is not mapped.

        Each call sends a request, also for a slab that is mapped: the service checks the session's
        rights and whether work uses the buffer.
        """
        if self._address is None:
            return Unmapped.NEVER
        request = _REQUEST.pack(self._secrets[:16], self._secrets[16:], buffer)
        try:
            answer, fds = _exchange(self._address, request)
        except ConnectionRefusedError:  # the service runs on another host: do not try again
            self._address = None
            return Unmapped.NEVER
        except OSError:
            return Unmapped.NEVER
        try:
            return self._mapped(answer, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def find_new(self, slab: int, offset: int, size_bytes: int) -> Bytes | None:
        """Returns a new buffer in a slab that is mapped already, without a request.

        The caller has just allocated the buffer, so no other work uses it. Where the session has
        ended since, its bytes are no longer those of the buffer: the caller must make another call
        before it trusts what it reads.

        Args:
            slab: The slab; 0 for none.
            offset: The buffer's first byte in it.
            size_bytes: Its size.
        """
        memory = self._slabs.get(slab)
        if memory is None or offset + size_bytes > len(memory):
            return None
        return np.frombuffer(memory, np.uint8, count=size_bytes, offset=offset)

    def close(self) -> None:
        """Releases the mappings; each ends with its last view."""
        self._address = None
        self._slabs.clear()

    def _mapped(self, answer: bytes, fds: list[int]) -> MappedBuffer | Unmapped:
        if len(answer) != _ANSWER.size:
            return Unmapped.NEVER
        state, slab, slab_bytes, offset, size_bytes = _ANSWER.unpack(answer)
        if state == _LATER:
            return Unmapped.NOT_YET
        memory = self._slabs.get(slab) or (_map(fds[0], slab_bytes) if fds else None)
        if memory is None:
            return Unmapped.NEVER
        self._keep(slab, memory)
        content = np.frombuffer(memory, np.uint8, count=size_bytes, offset=offset)
        return MappedBuffer(content=content, idle=state == _IDLE)

    def _keep(self, slab: int, memory: mmap.mmap) -> None:
        self._slabs.setdefault(slab, memory)
        while len(self._slabs) > _MAPPINGS_LIMIT:
            del self._slabs[next(iter(self._slabs))]


def _exchange(address: str, request: bytes) -> tuple[bytes, list[int]]:
    if sys.platform == "linux":
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
            end.settimeout(_ANSWER_TIMEOUT_S)
            end.connect(address)
            end.send(request)
            answer, fds, _, _ = socket.recv_fds(end, _ANSWER.size, 1)
            return answer, fds
    raise ConnectionRefusedError("shared memory needs Linux")


def _map(fd: int, size_bytes: int) -> mmap.mmap | None:
    if sys.platform == "linux":
        # Access to a mapping that its owner has shrunk kills this process with SIGBUS, so only
        # sealed memory is mapped. An error means no memfd, or no address space for it.
        with suppress(OSError, ValueError):
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                # Where all pages exist, mapping them at once takes a fifth of the time of faults.
                allocated = os.fstat(fd).st_blocks * _BLOCK_BYTES >= size_bytes
                flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if allocated else 0)
                return mmap.mmap(fd, size_bytes, flags=flags)
    return None
