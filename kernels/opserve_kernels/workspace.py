"""Layout of the parts of a workspace."""

from collections.abc import Generator
from contextlib import contextmanager

from opserve_kernels.operator import WORKSPACE_ALIGNMENT

FLOAT_BYTES = 4


class Workspace:
    """Lays parts one behind the other, each aligned to 512 bytes.

    Attributes:
        size_bytes: Bytes up to the end of the part that ends last.
    """

    def __init__(self, *, value_bytes: int = FLOAT_BYTES) -> None:
        self.size_bytes = 0
        self._value_bytes = value_bytes
        self._end_bytes = 0

    def reserve(self, count: int) -> int:
        """Reserves `count` values; returns the place of the first, in values from the start."""
        start = self._end_bytes // self._value_bytes
        parts = -(-count * self._value_bytes // WORKSPACE_ALIGNMENT)
        self._end_bytes += parts * WORKSPACE_ALIGNMENT
        self.size_bytes = max(self.size_bytes, self._end_bytes)
        return start

    @contextmanager
    def temporary(self) -> Generator[None]:
        """Frees on exit what is reserved inside: for stages whose parts nobody reads later."""
        before = self._end_bytes
        yield
        self._end_bytes = before

    def keep_all(self) -> None:
        """Keeps everything reserved so far, freed parts too: the next part begins behind it."""
        self._end_bytes = self.size_bytes
