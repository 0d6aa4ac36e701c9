"""Where the parts of a workspace lie."""

from opserve_kernels.operator import WORKSPACE_ALIGNMENT

FLOAT_BYTES = 4


class Workspace:
    """Lays parts of equal values one behind the other, each aligned to 512 bytes."""

    def __init__(self, *, value_bytes: int = FLOAT_BYTES) -> None:
        self.size_bytes = 0
        self._value_bytes = value_bytes

    def reserve(self, count: int) -> int:
        """Place of the first of `count` values, counted in values from the start."""
        start = self.size_bytes // self._value_bytes
        parts = -(-count * self._value_bytes // WORKSPACE_ALIGNMENT)
        self.size_bytes += parts * WORKSPACE_ALIGNMENT
        return start
