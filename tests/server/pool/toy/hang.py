"""Never returns."""

import signal
from typing import Any


def run(*_: Any) -> None:
    while True:
        signal.pause()
