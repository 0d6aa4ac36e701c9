"""Kills its worker as often as the first byte of the tensor requests, then writes 42 behind it."""

import os
import signal
from typing import Any


def run(_: Any, tensors: Any, *__: Any) -> None:
    if tensors[0][0]:
        tensors[0][0] -= 1
        os.kill(os.getpid(), signal.SIGKILL)
    tensors[0][1] = 42
