"""The process of a device: maps slabs and runs kernels, one call after the other.

The front talks to it through one socket, which is read between calls and between the slices of a
call. When it closes, the front is gone or wants no more. The worker ends then: it is no orphan.
"""

import importlib
import logging
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.stages import stage_ends
from opserve_server.pool.cold import Sweep
from opserve_server.pool.messages import (
    PACKET_BYTES_LIMIT,
    Attach,
    Cancel,
    Cancelled,
    Detach,
    Done,
    Failed,
    KernelCall,
    Message,
    OutOfMemory,
    Ping,
    Pong,
    Ready,
    Region,
    Run,
    decode,
    encode,
)
from opserve_server.pool.shares import run_shares

Bytes = NDArray[np.uint8]
Kernel = Callable[[NDArray[np.int64], Sequence[Bytes], Bytes, int, int], None]

_FD = "i"
_FD_ROOM_BYTES = socket.CMSG_LEN(struct.calcsize(_FD))
END_GRACE_S = 1.0
"""From the end of the front to that of a worker whose kernel never comes to the end of a slice."""

log = logging.getLogger(__name__)


class FrontGoneError(Exception):
    """The front's end of the socket is closed."""


class CallCancelledError(Exception):
    """The front does not want the running call any more."""


def main(end: socket.socket, kernels: Mapping[str, str], threads: int) -> None:
    """Runs until the front closes its end of the socket.

    Args:
        end: The worker's end of the socket.
        kernels: Module with `run` for each operator; loaded before the worker is ready.
        threads: On how many a call runs at most.
    """
    for group_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(group_signal, signal.SIG_IGN)  # the front decides when its workers end
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s worker %(process)d %(message)s")
    threading.Thread(target=_end_with_the_front, args=(end.fileno(),), daemon=True).start()
    try:
        with _started_threads(threads - 1) as pool:
            _Worker(end, load_kernels(kernels), pool).serve()
    except FrontGoneError:
        return


def _started_threads(count: int) -> ThreadPoolExecutor:
    """Threads that run already: one that cannot be started ends the worker, and never a call."""
    pool = ThreadPoolExecutor(max(count, 1), "share")
    if count:
        meeting = threading.Barrier(count)
        wait([pool.submit(meeting.wait) for _ in range(count)])
    return pool


def load_kernels(kernels: Mapping[str, str]) -> dict[str, Kernel]:
    """Imports kernel modules, which compiles or loads them."""
    return {name: importlib.import_module(module).run for name, module in kernels.items()}


def _end_with_the_front(end: int) -> None:
    """Ends the process some time after the front closed its end, whatever its kernel does."""
    poll = select.poll()
    poll.register(end, select.POLLRDHUP)
    poll.poll()
    time.sleep(END_GRACE_S)
    os._exit(1)


class _Worker:
    def __init__(
        self, end: socket.socket, kernels: Mapping[str, Kernel], pool: ThreadPoolExecutor
    ) -> None:
        self._end = end
        self._kernels = kernels
        self._pool = pool
        self._operators = sorted(kernels)
        self._slabs: dict[int, Bytes] = {}
        self._sweep = Sweep()
        self._waiting: dict[int, KernelCall] = {}
        self._running: int | None = None
        self._cancelled = False
        self._reading = threading.Lock()

    def serve(self) -> None:
        self._send(Ready())
        while True:
            if self._waiting:
                self._take_in_all()
            else:
                self._take_in()
            if self._waiting:
                call_id = next(iter(self._waiting))
                self._run(call_id, self._waiting.pop(call_id))

    def _take_in_all(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._take_in(socket.MSG_DONTWAIT)

    def _take_in(self, flags: int = 0) -> None:
        """Takes in a packet; calls wait, everything else has its effect at once."""
        try:
            # socket.recv_fds forgets its flags.
            packet, beside, _, _ = self._end.recvmsg(PACKET_BYTES_LIMIT, _FD_ROOM_BYTES, flags)
        except ConnectionResetError as error:
            raise FrontGoneError from error
        if not packet:
            raise FrontGoneError
        fds = [fd for _, _, data in beside for fd in struct.unpack(_FD, data)]
        for message in decode(packet, self._operators):
            self._handle(message, fds)

    def _send(self, message: Message) -> None:
        try:
            self._end.send(encode(message, self._operators))
        except OSError as error:
            raise FrontGoneError from error

    def _handle(self, message: Message, fds: list[int]) -> None:
        match message:
            case Attach(slab, size_bytes):
                self._attach(slab, size_bytes, fds)
            case Detach(slab):
                self._slabs.pop(slab, None)
            case Run(call_id, call):
                self._waiting[call_id] = call
            case Cancel(call_id):
                self._cancel(call_id)
            case Ping():
                self._send(Pong())
            case _:
                raise AssertionError(f"the front sent {message}")

    def _attach(self, slab: int, size_bytes: int, fds: list[int]) -> None:
        """Maps a slab; where there is no room for it, the calls that use it fail."""
        try:
            # Without room for another descriptor none has come.
            with os.fdopen(fds.pop(), "rb+", buffering=0) as file:
                mapped = mmap.mmap(file.fileno(), size_bytes)
        except (IndexError, OSError):
            log.exception("slab %d cannot be mapped", slab)
        else:
            self._slabs[slab] = np.frombuffer(mapped, np.uint8)

    def _cancel(self, call_id: int) -> None:
        if call_id == self._running:
            self._cancelled = True
        elif self._waiting.pop(call_id, None):
            self._send(Cancelled(call_id))

    def _run(self, call_id: int, call: KernelCall) -> None:
        self._running, self._cancelled = call_id, False
        outcome = self._outcome(call_id, call)
        self._running = None
        self._send(outcome)

    def _outcome(self, call_id: int, call: KernelCall) -> Message:
        start_ns = time.monotonic_ns()
        try:
            if call.cold:
                self._empty_caches(threads=len(call.shares))
                start_ns = time.monotonic_ns()
            self._run_shares(call)
        except FrontGoneError:
            raise
        except CallCancelledError:
            return Cancelled(call_id)
        except MemoryError:
            log.exception("no memory for a call of %s", call.operator)
            return OutOfMemory(call_id)
        except Exception:
            log.exception("a kernel of %s failed", call.operator)
            return Failed(call_id)
        return Done(call_id, start_ns, time.monotonic_ns())

    def _run_shares(self, call: KernelCall) -> None:
        kernel = partial(
            self._kernels[call.operator],
            np.array(call.parameters, np.int64),
            [self._bytes(region) for region in call.tensors],
            self._bytes(call.workspace),
        )
        run_shares(kernel, call.shares, stage_ends(call.parameters), self._pool, self._look_up)

    def _empty_caches(self, *, threads: int) -> None:
        """Each thread of the call reads the whole memory, for cores have caches of their own."""
        self._sweep.prepare()
        shares = (self._sweep.units,) * threads
        run_shares(self._sweep.run, shares, [sum(shares)], self._pool, self._look_up)

    def _bytes(self, region: Region | None) -> Bytes:
        if region is None:
            return np.empty(0, np.uint8)
        if region.slab not in self._slabs:
            raise MemoryError(f"slab {region.slab} is not mapped")
        return self._slabs[region.slab][region.offset : region.offset + region.size_bytes]

    def _look_up(self) -> None:
        """Hears the front, in any thread of the running call, and obeys."""
        if self._reading.acquire(blocking=False):  # otherwise another thread reads
            try:
                self._take_in_all()
            finally:
                self._reading.release()
        if self._cancelled:
            raise CallCancelledError
