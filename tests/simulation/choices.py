"""Choices of the machines, by index, so that a seed makes the same steps in every process.

Hypothesis labels a draw from a list by the hashes of its elements, and mutates draws by their
labels. Hashes of texts and of objects differ from process to process; those of indices do not.
"""

from collections.abc import Collection
from typing import TypeVar

from hypothesis import strategies as st

Item = TypeVar("Item")

WHICH = st.integers(0, 839)
"""Chooses one of a collection with `pick`; 840 is a multiple of every length up to 8."""
WHICH_IF_ANY = st.none() | WHICH


def one_of(*choices: Item) -> st.SearchStrategy[Item]:
    """One of a few fixed values."""
    return st.integers(0, len(choices) - 1).map(choices.__getitem__)


def pick(items: Collection[Item], which: int) -> Item:
    """One of a collection that earlier steps made, by its place there."""
    return list(items)[which % len(items)]
