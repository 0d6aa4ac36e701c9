"""Worker process of a device: maps slabs and runs kernels, the calls of each flow one by one.

The front talks to it through one socket, which is read between calls and between the slices of a
call. There a call may pause for another flow's. The worker ends when the socket closes, so that it
never outlives its front.
"""

import importlib
import logging
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.stages import stage_ends
from opserve_server.pool.cache_sweep import CacheSweep
from opserve_server.pool.crash_page import CrashPage
from opserve_server.pool.messages import (
    PACKET_BYTES_LIMIT,
    Attach,
    Cancel,
    Cancelled,
    Detach,
    Done,
    Ending,
    Failed,
    Message,
    OutOfMemory,
    Ping,
    Pong,
    Ready,
    Region,
    Run,
    TimedOut,
    decode,
    encode,
)
from opserve_server.pool.run_queue import RunQueue, Task
from opserve_server.pool.shares import run_shares, shares_of
from opserve_server.pool.slabs import map_slab

Bytes = NDArray[np.uint8]
Kernel = Callable[[NDArray[np.int64], Sequence[Bytes], Bytes, int, int], None]

_NS_PER_S = 1_000_000_000
_FD = "i"
_FD_ROOM_BYTES = socket.CMSG_LEN(struct.calcsize(_FD))
END_GRACE_S = 1.0
"""Seconds from the end of the front to that of a worker whose kernel never reaches the end of a
slice."""

log = logging.getLogger(__name__)


class FrontGoneError(Exception):
    """The front's end of the socket is closed."""


class CallStoppedError(Exception):
    """The running call must end: the front cancelled it, or it ran too long."""


def main(
    end: socket.socket,
    crash_page: CrashPage,
    kernels: Mapping[str, str],
    threads: int,
    call_time_limit_s: float,
) -> None:
    """Runs until the front closes its end of the socket.

    Args:
        end: The worker's end of the socket.
        crash_page: The page on which it writes its running call.
        kernels: Module with `run` for each operator; loaded before the worker is ready.
        threads: Threads that a call uses at most.
        call_time_limit_s: Seconds of device time that a call may take.
    """
    for group_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(group_signal, signal.SIG_IGN)  # the front decides when its workers end
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s worker %(process)d %(message)s")
    # A kernel holds the main thread for as long as a slice takes, so another thread watches for the
    # end of the front.
    threading.Thread(target=_end_with_the_front, args=(end.fileno(),), daemon=True).start()
    try:
        with _started_threads(threads - 1) as pool:
            _Worker(end, crash_page, load_kernels(kernels), pool, call_time_limit_s).serve()
    except FrontGoneError:
        return


def _started_threads(count: int) -> ThreadPoolExecutor:
    """Threads that are running already: failing to start one ends the worker, and never a call."""
    pool = ThreadPoolExecutor(max(count, 1), "share")
    if count:
        # Each submit starts a thread only while all others are busy: the barrier keeps them busy.
        meeting = threading.Barrier(count)
        wait([pool.submit(meeting.wait) for _ in range(count)])
    return pool


def load_kernels(kernels: Mapping[str, str]) -> dict[str, Kernel]:
    """Imports kernel modules, which compiles or loads them."""
    return {name: importlib.import_module(module).run for name, module in kernels.items()}


def _end_with_the_front(end: int) -> None:
    """Ends the process some time after the front closed its end, even during a kernel."""
    poll = select.poll()
    poll.register(end, select.POLLRDHUP)
    poll.poll()
    time.sleep(END_GRACE_S)
    os._exit(1)


class _Worker:
    def __init__(
        self,
        end: socket.socket,
        crash_page: CrashPage,
        kernels: Mapping[str, Kernel],
        pool: ThreadPoolExecutor,
        call_time_limit_s: float,
    ) -> None:
        self._end = end
        self._crash_page = crash_page
        self._kernels = kernels
        self._pool = pool
        self._call_time_limit_ns = call_time_limit_s * _NS_PER_S
        self._operators = sorted(kernels)
        self._slabs: dict[int, Bytes] = {}
        self._sweep = CacheSweep()
        self._run_queue = RunQueue()
        self._running: Task | None = None
        self._switched_ns = 0
        self._charged_ns = 0
        self._stopped: type[Cancelled | TimedOut] | None = None
        self._pausing = False
        self._reading = threading.Lock()

    def serve(self) -> None:
        self._send(Ready())
        while True:
            # Everything is read before a call is chosen, so that the choice knows all flows and a
            # cancelled call never begins. Without a call the worker blocks on the socket.
            if self._run_queue:
                self._take_in_all()
            else:
                self._take_in()
            if self._run_queue:
                self._switch_to(self._run_queue.next())

    def _take_in_all(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._take_in(socket.MSG_DONTWAIT)

    def _take_in(self, flags: int = 0) -> None:
        """Handles a packet; calls are queued, every other message takes effect at once."""
        try:
            # socket.recv_fds drops its flags.
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
            case Run():
                self._run_queue.add(message)
            case Cancel(call_id):
                self._cancel(call_id)
            case Ping():
                self._send(Pong())
            case _:
                raise AssertionError(f"the front sent {message}")

    def _attach(self, slab: int, size_bytes: int, fds: list[int]) -> None:
        """Maps a slab; where it cannot be mapped, the calls that use it fail."""
        try:
            # Without a free descriptor none has arrived.
            with os.fdopen(fds.pop(), "rb+", buffering=0) as file:
                mapped = map_slab(file.fileno(), size_bytes)
        except (IndexError, OSError):
            log.exception("slab %d cannot be mapped", slab)
        else:
            self._slabs[slab] = np.frombuffer(mapped, np.uint8)

    def _cancel(self, call_id: int) -> None:
        task = self._run_queue.find(call_id)
        # The threads of the call stop at their next slices; the answer follows when all have.
        if task is not None and task is self._running:
            self._stopped = self._stopped or Cancelled
        elif task is not None:
            self._run_queue.remove(task)
            self._send(Cancelled(call_id, task.used_ns))

    def _switch_to(self, task: Task) -> None:
        """Begins or continues a call until it ends or pauses."""
        self._running, self._stopped, self._pausing = task, None, False
        self._switched_ns = self._charged_ns = time.monotonic_ns()
        # Before the first instruction of the kernel: a crash must name this call, with its device
        # time so far.
        self._crash_page.write(task.run.call_id, since_ns=self._switched_ns - task.used_ns)
        ending = self._outcome(task)
        self._charge(task)
        # Before the answer is sent: from then on the front may cancel other calls only.
        self._running = None
        if ending is None:
            return
        self._run_queue.remove(task)
        fields: tuple[int, ...] = (task.run.call_id, task.used_ns)
        if ending is Done:
            fields += (task.start_ns, self._charged_ns, task.used_ns - task.swept_ns)
        # The front reuses the memory of the call after this message: no thread writes to it any
        # more.
        self._send(ending(*fields))

    def _charge(self, task: Task) -> None:
        """Charges the running call for its time so far."""
        now_ns = time.monotonic_ns()
        self._run_queue.charge(task, now_ns - self._charged_ns)
        self._charged_ns = now_ns

    def _outcome(self, task: Task) -> type[Ending] | None:
        """The outcome of a call; None where it pauses."""
        operator = task.run.call.operator
        try:
            if task.course is None:
                task.course = self._course(task)
            # The generator keeps the state of the call across pauses: shares, units and slice
            # sizes.
            for _ in task.course:  # to its next pause
                return None
        except FrontGoneError:
            raise
        except CallStoppedError:
            return self._stopped
        except MemoryError:
            log.exception("no memory for a call of %s", operator)
            return OutOfMemory
        except Exception:
            log.exception("a kernel of %s failed", operator)
            return Failed
        return Done

    def _course(self, task: Task) -> Iterator[None]:
        """Runs a call, and yields at each pause."""
        call = task.run.call
        if call.cold:
            yield from self._empty_caches(threads=len(call.shares))
            yield  # so that its kernel begins a fresh slice
            task.swept_ns = task.used_ns
        # After the sweep: its time is charged, but is not the kernel's.
        task.start_ns = self._switched_ns
        kernel = partial(
            self._kernels[call.operator],
            np.array(call.parameters, np.int64),
            [self._bytes(region) for region in call.tensors],
            self._bytes(call.workspace),
        )
        yield from self._run_units(kernel, call.shares, stage_ends(call.parameters))

    def _empty_caches(self, *, threads: int) -> Iterator[None]:
        """Each thread of the call reads the whole memory, since cores have caches of their own."""
        self._sweep.prepare()
        shares = (self._sweep.units,) * threads
        yield from self._run_units(self._sweep.run, shares, [sum(shares)])

    def _run_units(
        self, run: Callable[[int, int], None], units: Sequence[int], ends: Sequence[int]
    ) -> Iterator[None]:
        shares = shares_of(units)
        while run_shares(run, shares, ends, self._pool, self._look_up):
            yield

    def _bytes(self, region: Region | None) -> Bytes:
        if region is None:
            return np.empty(0, np.uint8)
        if region.slab not in self._slabs:
            # Its mapping failed for lack of memory or descriptors.
            raise MemoryError(f"slab {region.slab} is not mapped")
        return self._slabs[region.slab][region.offset : region.offset + region.size_bytes]

    def _look_up(self) -> bool:
        """Reads the front's messages, in any thread of the call; returns whether it continues."""
        # One thread reads the socket; the others go on with their next slices.
        if self._reading.acquire(blocking=False):  # otherwise another thread reads
            try:
                self._check_limits()
            finally:
                self._reading.release()
        if self._stopped is not None:
            raise CallStoppedError
        return not self._pausing

    def _check_limits(self) -> None:
        """Checks whether the running call has exceeded its device time or its fair share."""
        assert self._running is not None, "only a call that runs looks up"
        self._charge(self._running)  # before others join, which are not charged for earlier time
        # May cancel this call, or add a flow with less device time.
        self._take_in_all()
        if self._running.used_ns > self._call_time_limit_ns:
            self._stopped = self._stopped or TimedOut
        self._pausing = self._pausing or self._run_queue.gives_way(self._running)
