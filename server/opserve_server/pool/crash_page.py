"""Crash page: memory shared by a worker and the front, which names the running call."""

import mmap
import os
from array import array
from multiprocessing.reduction import DupFd
from typing import Any

from typing_extensions import override

_CALL, _SINCE = 0, 1


class CrashPage:
    """Written by a worker whenever it switches to a call, without a system call.

    The front makes one for each worker and passes it with the arguments of the process.

    Args:
        fd: Descriptor of its page, which it owns; None makes a new page.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._fd = os.memfd_create("opserve-crash-page", os.MFD_CLOEXEC) if fd is None else fd
        try:
            if fd is None:
                os.ftruncate(self._fd, mmap.PAGESIZE)
            self._page = mmap.mmap(self._fd, mmap.PAGESIZE)
        except BaseException:
            os.close(self._fd)
            raise
        self._words = memoryview(self._page).cast("q")

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self._fd),)

    @property
    def call_id(self) -> int:
        """The call that runs, or ran last; 0 before the first one."""
        return self._words[_CALL]

    @property
    def since_ns(self) -> int:
        """Start of that call had it never paused, nanoseconds of the monotonic clock."""
        return self._words[_SINCE]

    def write(self, call_id: int, *, since_ns: int) -> None:
        """Records the call that runs from now on."""
        self._words[_CALL] = call_id
        self._words[_SINCE] = since_ns

    def close(self) -> None:
        """Unmaps the page; its last contents stay readable."""
        last = array("q", [self.call_id, self.since_ns])
        self._words.release()
        self._words = memoryview(last)
        self._page.close()
        os.close(self._fd)


def _received(descriptor: Any) -> CrashPage:  # noqa: ANN401  # it has no type of its own
    return CrashPage(descriptor.detach())
