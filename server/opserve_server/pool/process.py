"""A worker process, from its start to its end, as seen by the front."""

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from multiprocessing.resource_tracker import ensure_running

from opserve_server.pool import worker
from opserve_server.pool.crash_page import CrashPage
from opserve_server.pool.messages import Channel, Message, Ready

PROCESS_TABLE = threading.Lock()
"""Process.start inspects every other Process object, which must not be closed meanwhile."""


def preload(kernels: Iterable[str]) -> list[str]:
    """Makes the fork server load these modules before it forks workers, if none was started yet.

    Returns:
        The imports of the fork server, in this order.
    """
    modules = [
        "opserve_server.pool.single_thread",
        "opserve_server.pool.worker",
        *kernels,
        "opserve_server.pool.after_preload",
    ]
    multiprocessing.get_context("forkserver").set_forkserver_preload(modules)
    return modules


class WorkerProcess:
    """A worker that runs until it is stopped or dies. Made by `start`.

    Its pidfd reports its end, not the sentinel of multiprocessing: that one also ends with the fork
    server, while the worker goes on and writes.

    Attributes:
        pid: Process id.
        channel: The socket to it.
        crash_page: The page on which it writes its running call.
        ready: Done when every kernel is loaded, or when the worker died.
        dead: Done when the socket or the process ended.
    """

    def __init__(
        self, process: ForkServerProcess, pid: int, pidfd: int, crash_page: CrashPage
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._pidfd = pidfd
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self.pid = pid
        self.channel: Channel
        self.crash_page = crash_page
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        self.dead: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(pidfd, self._on_exit)

    @classmethod
    async def start(
        cls,
        name: str,
        kernels: Mapping[str, str],
        *,
        threads: int,
        call_time_limit_s: float,
        on_message: Callable[[Message], None],
    ) -> "WorkerProcess":
        """A new process that loads its kernels.

        Args:
            name: Name of the process.
            kernels: Module with `run` for each operator.
            threads: Threads that a call uses at most.
            call_time_limit_s: Seconds of device time that a call may take.
            on_message: Called with its messages, except Ready.

        Raises:
            OSError: The system cannot start it, or it ended at once.
            EOFError: The fork server ended.
        """
        crash_page = CrashPage()
        with ExitStack() as undone:
            undone.callback(crash_page.close)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # Unless the process starts, everything made here is closed again.
            undone.callback(ours.close)
            with theirs:
                context = multiprocessing.get_context("forkserver")
                process = context.Process(
                    target=worker.main,
                    args=(theirs, crash_page, dict(kernels), threads, call_time_limit_s),
                    name=name,
                    daemon=True,
                )
                # In a thread, since the fork server may take a while to answer, the first time with
                # its imports.
                pid, pidfd = await asyncio.to_thread(_start, process)
            undone.pop_all()
        self = cls(process, pid, pidfd, crash_page)

        def receive(message: Message) -> None:
            if isinstance(message, Ready):
                self.ready.set_result(True)
            else:
                on_message(message)

        self.channel = Channel(
            ours, operators=sorted(kernels), on_message=receive, on_close=self._on_end
        )
        return self

    def kill(self) -> None:
        """Kills it; `dead` is done soon after."""
        if not self._exited.done():
            with suppress(ProcessLookupError):  # it has ended, and the loop has not noticed yet
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def stop(self, *, grace_s: float) -> None:
        """Closes the socket, which ends a live worker; kills one that does not end in time.

        Afterwards it writes no byte any more.
        """
        # A live worker ends at the end of its socket; only one in a long slice has to be killed.
        self.channel.close()
        await asyncio.wait([self._exited], timeout=grace_s)
        self.kill()
        # A killed process still has its mappings until the kernel has removed it; only then its
        # slabs are safe to reuse.
        await self._exited
        os.close(self._pidfd)
        self.crash_page.close()
        await asyncio.to_thread(_reap, self._process)

    def _on_exit(self) -> None:
        # A pidfd stays readable after the end of its process.
        self._loop.remove_reader(self._pidfd)
        self._exited.set_result(None)
        self.channel.drain()  # its last messages count
        self._on_end()

    def _on_end(self) -> None:
        if not self.ready.done():
            self.ready.set_result(False)
        if not self.dead.done():
            self.dead.set_result(None)


def _start(process: ForkServerProcess) -> tuple[int, int]:
    with interrupts_blocked(), PROCESS_TABLE:
        process.start()
    pid = process.pid
    assert pid is not None, "a started process has an id"
    return pid, os.pidfd_open(pid)


@contextmanager
def interrupts_blocked() -> Generator[None]:
    """Blocks SIGINT in this thread, for a fork server that starts meanwhile.

    The fork server inherits the blocked signal: an interrupt from the terminal, which all processes
    get, would end it with a traceback while it imports. The tracker unblocks the signal when it
    starts, so it starts before. A block that the service itself has inherited stays.
    """
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited)


def _reap(process: ForkServerProcess) -> None:
    process.join()
    with PROCESS_TABLE:
        process.close()
