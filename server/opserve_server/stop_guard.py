"""Stop guard: a small process that kills a front which does not end in time after a signal.

A front whose event loop is stuck, in Python or in C, handles no signal. faulthandler's handler in C
needs neither the loop nor the interpreter: it writes the front's stack to this process. Workers end
with their front. As process 1 of a container the front needs an init: the kernel lets no process of
a container kill the first one.
"""

import faulthandler
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_FRONT = 0  # the descriptor that the front writes to
_PIPE_BYTES = 1 << 16


class StopGuard:
    """The front's side of its stop guard.

    Args:
        descriptor: A pipe to the guard.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def watch(self) -> None:
        """Notifies the guard of SIGNALS from now on, beside their existing handlers."""
        for number in SIGNALS:
            faulthandler.register(number, self._descriptor, all_threads=False, chain=True)


@contextmanager
def stop_guard(limit_s: float) -> Generator[StopGuard]:
    """A guard of this process until the block ends.

    Args:
        limit_s: Seconds from the first signal until this process is killed.
    """
    command = (sys.executable, "-I", "-S", __file__, f"{limit_s}")
    with subprocess.Popen(  # noqa: S603  # this module
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        process_group=0,  # an interrupt from the terminal is for the front alone
    ) as process:
        assert process.stdin is not None
        yield StopGuard(process.stdin.fileno())


def main(limit_s: float) -> None:
    """Waits for the front's end; kills it when it is late after a signal."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to both
    front = os.getppid()
    stack = os.read(_FRONT, _PIPE_BYTES)
    deadline_s = time.monotonic() + limit_s
    while stack and (left_s := deadline_s - time.monotonic()) > 0:
        if select.select([_FRONT], [], [], left_s)[0]:
            more = os.read(_FRONT, _PIPE_BYTES)
            stack = stack + more if more else b""
    if stack and os.getppid() == front:
        os.kill(front, signal.SIGKILL)
        where = stack.decode(errors="replace")
        sys.stderr.write(f"opserve: killed {limit_s:g} s after a signal to stop, stuck in\n{where}")


if __name__ == "__main__":
    main(float(sys.argv[1]))
