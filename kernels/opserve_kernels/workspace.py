"""Where the parts of a workspace lie."""

from opserve_kernels.operator import WORKSPACE_ALIGNMENT

FLOAT_BYTES = 4


class Workspace:
    """Lays parts of float32 values one behind the other, each aligned to 512 bytes."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def reserve(self, count: int) -> int:
        """Place of the first of `count` values, counted in values from the start."""
        start = self.size_bytes // FLOAT_BYTES
        parts = -(-count * FLOAT_BYTES // WORKSPACE_ALIGNMENT)
        self.size_bytes += parts * WORKSPACE_ALIGNMENT
        return start
