"""Sizes of arrays and transfers, for both environments: imports nothing."""

SMALL_BYTES = 1 << 10
LARGE_BYTES = 1 << 24
TRANSFERS_MIB = (1, 64)
