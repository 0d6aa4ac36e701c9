"""Asks for more memory than any address space has."""

from typing import Any

import numpy as np


def run(*_: Any) -> None:
    np.empty(1 << 60, np.uint8)
