"""Adds one to the first byte of the first tensor and never returns."""

import signal
from typing import Any


def run(_: Any, tensors: Any, *__: Any) -> None:
    tensors[0][0] += 1
    while True:
        signal.pause()
