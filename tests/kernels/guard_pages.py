"""Memory beside inaccessible guard pages: a kernel that leaves its memory is killed at once."""

import ctypes
import faulthandler
import gc
import mmap
import os
from collections.abc import Callable
from enum import StrEnum
from traceback import print_exc

import numpy as np

from kernels.samples.sample import Bytes

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0  # PROT_NONE

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Side(StrEnum):
    """The side of the inaccessible page."""

    BEFORE = "before the first byte"
    BEHIND = "behind the last byte"


def beside_guard_pages(content: Bytes, side: Side) -> Bytes:
    """A copy between two guard pages, one of them directly beside it.

    It lives as long as the array: guard pages are never removed, so this is for short processes.
    """
    pages = -(-content.size // _PAGE) * _PAGE
    memory = np.frombuffer(mmap.mmap(-1, pages + 2 * _PAGE), np.uint8)
    start = _PAGE if side is Side.BEFORE else _PAGE + pages - content.size
    copy = memory[start : start + content.size]
    copy[:] = content
    for place in (0, _PAGE + pages):
        if _mprotect(memory.ctypes.data + place, _PAGE, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    return copy


def status_of_child(act: Callable[[], object]) -> int:
    """Does something in a process of its own: 0, or 1 for an exception, or minus its signal."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        gc.disable()  # objects of gRPC that other tests left must not end without its threads
        try:
            act()
        except BaseException:  # noqa: BLE001  # the child must never return into the tests
            print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
