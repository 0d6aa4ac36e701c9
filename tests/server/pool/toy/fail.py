"""Raises."""

from typing import Any


def run(*_: Any) -> None:
    raise ValueError("planted: secret of the server")
