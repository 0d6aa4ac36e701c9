"""The process of a device: maps slabs and runs kernels, one call after the other.

The front talks to it through one socket. When that closes, the front is gone or wants no more,
and the worker ends: it is never an orphan.
"""

import importlib
import logging
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.stages import stage_ends
from opserve_server.pool.messages import (
    PACKET_BYTES_LIMIT,
    Attach,
    Detach,
    Done,
    Failed,
    KernelCall,
    Message,
    Ready,
    Region,
    Run,
    decode,
    encode,
)
from opserve_server.pool.shares import run_shares

Bytes = NDArray[np.uint8]
Kernel = Callable[[NDArray[np.int64], Sequence[Bytes], Bytes, int, int], None]

log = logging.getLogger(__name__)


class FrontGoneError(Exception):
    """The front's end of the socket is closed."""


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
    try:
        with ThreadPoolExecutor(threads, "share") as pool:
            _Worker(end, load_kernels(kernels), pool).serve()
    except FrontGoneError:
        return


def load_kernels(kernels: Mapping[str, str]) -> dict[str, Kernel]:
    """Imports kernel modules, which compiles or loads them."""
    return {name: importlib.import_module(module).run for name, module in kernels.items()}


class _Worker:
    def __init__(
        self, end: socket.socket, kernels: Mapping[str, Kernel], pool: ThreadPoolExecutor
    ) -> None:
        self._end = end
        self._kernels = kernels
        self._pool = pool
        self._operators = sorted(kernels)
        self._slabs: dict[int, Bytes] = {}

    def serve(self) -> None:
        self._send(Ready())
        while True:
            packet, fds = self._receive()
            for message in decode(packet, self._operators):
                self._handle(message, fds)

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            packet, fds, _, _ = socket.recv_fds(self._end, PACKET_BYTES_LIMIT, 1)
        except ConnectionResetError as error:
            raise FrontGoneError from error
        if not packet:
            raise FrontGoneError
        return packet, fds

    def _send(self, message: Message) -> None:
        try:
            self._end.send(encode(message, self._operators))
        except OSError as error:
            raise FrontGoneError from error

    def _handle(self, message: Message, fds: list[int]) -> None:
        match message:
            case Attach(slab, size_bytes):
                with os.fdopen(fds.pop(), "rb+", buffering=0) as file:
                    mapped = mmap.mmap(file.fileno(), size_bytes)
                self._slabs[slab] = np.frombuffer(mapped, np.uint8)
            case Detach(slab):
                del self._slabs[slab]
            case Run(call_id, call):
                self._run(call_id, call)
            case _:
                raise AssertionError(f"the front sent {message}")

    def _run(self, call_id: int, call: KernelCall) -> None:
        start_ns = time.monotonic_ns()
        try:
            self._run_shares(call)
        except FrontGoneError:
            raise
        except Exception:
            log.exception("a kernel of %s failed", call.operator)
            self._send(Failed(call_id))
        else:
            self._send(Done(call_id, start_ns, time.monotonic_ns()))

    def _run_shares(self, call: KernelCall) -> None:
        kernel = partial(
            self._kernels[call.operator],
            np.array(call.parameters, np.int64),
            [self._bytes(region) for region in call.tensors],
            self._bytes(call.workspace),
        )
        run_shares(kernel, call.shares, stage_ends(call.parameters), self._pool, self._look_up)

    def _bytes(self, region: Region | None) -> Bytes:
        if region is None:
            return np.empty(0, np.uint8)
        return self._slabs[region.slab][region.offset : region.offset + region.size_bytes]

    def _look_up(self) -> None:
        """Ends the worker at once when nobody waits for it any more."""
        poll = select.poll()
        poll.register(self._end, select.POLLRDHUP)
        if poll.poll(0):
            raise FrontGoneError
