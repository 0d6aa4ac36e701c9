"""What a process does first that works for another one: it ends with that, however that ends."""

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait


def exit_with_parent() -> None:
    """From now on; a key that interrupts means the parent alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "somebody has started it"
    wait([parent.sentinel])
    os._exit(1)
