"""conv2d_backprop_filter that kills its worker."""

import os
import signal
from typing import Any


def run(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
