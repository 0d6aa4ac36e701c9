"""Adds one to byte `unit` of the first tensor, so that a unit run twice shows."""

from collections.abc import Sequence
from typing import Any


def run(parameters: Any, tensors: Sequence[Any], workspace: Any, first: int, last: int) -> None:
    tensors[0][first:last] += 1
    workspace[:] = parameters[0]
