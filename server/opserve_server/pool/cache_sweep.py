"""Cold caches: reads other memory before a call, so that none of the call's memory is cached."""

from pathlib import Path

import numpy as np

_UNIT_WORDS = 2**17
"""Words of a unit, 1 MiB: some 100 microseconds, so that a sweep can be stopped soon."""
_UNIT_BYTES = 8 * _UNIT_WORDS
_UNKNOWN_CACHE_BYTES = 64 * 2**20
"""Assumed size where the system does not report its caches: the last level of a large machine."""
_TIMES_THE_CACHE = 2
"""A cache does not always evict the least recently used line; a second round evicts the rest."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class CacheSweep:
    """Memory of twice the last-level cache, allocated by the first sweep and reused by others."""

    def __init__(self) -> None:
        self.units = -(-_TIMES_THE_CACHE * last_cache_bytes() // _UNIT_BYTES)
        self._words = np.empty(0, np.int64)

    def prepare(self) -> None:
        """Allocates the memory; raises MemoryError where there is none."""
        if not self._words.size:
            # Reading pages that were never written would read one shared page of zeros.
            self._words = np.ones(self.units * _UNIT_WORDS, np.int64)

    def run(self, first: int, end: int) -> None:
        """Reads a range of units, starting again after the last one."""
        for unit in range(first, end):
            start = unit % self.units * _UNIT_WORDS
            self._words[start : start + _UNIT_WORDS].max()


def last_cache_bytes() -> int:
    """Size of the largest cache of the machine."""
    try:
        sizes = [path.read_text().strip() for path in _CACHES.glob("index*/size")]
        return max(int(size[:-1]) * _UNITS[size[-1]] for size in sizes)
    except (OSError, ValueError, KeyError, IndexError):
        return _UNKNOWN_CACHE_BYTES
