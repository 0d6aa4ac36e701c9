"""How a process of the service keeps its memory, so that others' calls do not wait for it."""

import ctypes
import gc
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGEST_BLOCK_BYTES = 32 * 2**20
_KEPT_BYTES = 128 * 2**20
_ARENAS = 2


def keep_freed_memory() -> None:
    """Keeps up to 128 MiB of freed memory instead of giving it back to the system at once.

    Each chunk is copied into and out of messages, and without this the pages of every copy are new
    ones of the system's: a read of 1 MiB takes two to three times as long.

    All threads share two arenas. With one for each thread of gRPC, messages of which no more than
    16 MiB were there at the same time have taken up to 74 MiB.
    """
    if sys.platform != "linux":
        return
    # A C library other than glibc has no mallopt, and habits of its own.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def freeze_loaded_objects() -> None:
    """Leaves all objects that there are so far, modules above all, out of later collections.

    A whole collection stops the process while it looks at each object: 0.1 s for what the front
    loads, and a few milliseconds for what clients make it hold.
    """
    gc.collect()
    gc.freeze()
