"""Where the parts of a workspace lie."""

from collections.abc import Generator
from contextlib import contextmanager

from opserve_kernels.operator import WORKSPACE_ALIGNMENT

FLOAT_BYTES = 4


class Workspace:
    """Lays parts of equal values one behind the other, each aligned to 512 bytes.

    Attributes:
        size_bytes: Bytes up to the end of the part that reaches farthest.
    """

    def __init__(self, *, value_bytes: int = FLOAT_BYTES) -> None:
        self.size_bytes = 0
        self._value_bytes = value_bytes
        self._end_bytes = 0

    def reserve(self, count: int) -> int:
        """Place of the first of `count` values, counted in values from the start."""
        start = self._end_bytes // self._value_bytes
        parts = -(-count * self._value_bytes // WORKSPACE_ALIGNMENT)
        self._end_bytes += parts * WORKSPACE_ALIGNMENT
        self.size_bytes = max(self.size_bytes, self._end_bytes)
        return start

    @contextmanager
    def passing(self) -> Generator[None]:
        """What is reserved within is free again behind it: for stages that leave nothing there."""
        before = self._end_bytes
        yield
        self._end_bytes = before

    def go_behind(self) -> None:
        """Everything that was reserved is kept, also what has passed: the next part lies behind."""
        self._end_bytes = self.size_bytes
