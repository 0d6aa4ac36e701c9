"""A service whose event loop is stuck as soon as it is ready: `python stuck_front.py HOW`."""

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from itertools import repeat
from unittest.mock import patch

from opserve_server import app
from opserve_server.allocator import freeze_loaded_objects

KILL_AFTER_S = 0.5


def spin() -> None:
    """Python code without an end."""
    while True:
        pass


def sum_for_ever() -> None:
    """C code without an end, which does not release the interpreter."""
    sum(repeat(0))


def wait_for_ever() -> None:
    """C code without an end, which releases the interpreter."""
    lock = threading.Lock()
    with lock:
        lock.acquire()


STUCK: Mapping[str, Callable[[], None]] = {
    "in Python": spin,
    "in C, holding the interpreter": sum_for_ever,
    "in C, waiting": wait_for_ever,
}
"""Functions that block it, by name."""


def main() -> int:
    """Serves until it is ready, and never again."""

    def then_stick() -> None:
        freeze_loaded_objects()
        asyncio.get_running_loop().call_soon(STUCK[sys.argv[1]])

    with (
        patch("opserve_server.app.freeze_loaded_objects", then_stick),
        patch("opserve_server.app.KILL_AFTER_S", KILL_AFTER_S),
    ):
        return app.main()


if __name__ == "__main__":
    sys.exit(main())
