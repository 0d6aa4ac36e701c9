"""Parent watch of a child process: it ends with its parent, however the parent ends."""

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait


def exit_with_parent() -> None:
    """Starts the watch; an interrupt from the terminal is for the parent alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a child process has a parent"
    wait([parent.sentinel])
    os._exit(1)
