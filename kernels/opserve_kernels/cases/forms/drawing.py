"""Random numbers that determine the geometry of a call."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from opserve_kernels.cases.calls import Row

Choice = TypeVar("Choice")
Numbers = Iterator[int]
CHANNELS = 12
"""Sizes of a drawn call, at most."""


def one_of(numbers: Numbers, choices: Sequence[Choice]) -> Choice:
    """One of the choices."""
    return choices[next(numbers) % len(choices)]


def between(numbers: Numbers, least: int, most: int) -> int:
    """A number, bounds included."""
    return one_of(numbers, range(least, most + 1))


def row(numbers: Numbers, axes: int, least: int, most: int) -> Row:
    """A number for each axis."""
    return tuple(between(numbers, least, most) for _ in range(axes))
