"""Values between processes: whole, and large arrays apart from what is pickled."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opserve_kernels.cases.fill import Array
from opserve_server.conformance.payloads import OUT_OF_BAND_BYTES, packed, shared_memory, unpacked
from opserve_server.conformance.workers import ConformanceWorkers

NUMBERS = np.random.default_rng(0).standard_normal(OUT_OF_BAND_BYTES + 3)
ARRAYS: Mapping[str, Array] = {
    "float64": NUMBERS,
    "bfloat16": NUMBERS.astype(ml_dtypes.bfloat16),
    "bytes": NUMBERS.view(np.uint8)[1 : OUT_OF_BAND_BYTES + 2],
    "turned": NUMBERS[:-3].reshape(128, -1).T,
    "sparse": NUMBERS[::2],
    "small": NUMBERS[:3],
    "empty": NUMBERS[:0],
}


def assert_same(found: Mapping[str, Array]) -> None:
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        found[name][:1] = 0  # every owner of it may write it


def test_arrays_arrive_unchanged_and_large_ones_are_not_pickled() -> None:
    with shared_memory() as memory:
        payload = packed(ARRAYS, memory)
        found = unpacked(payload, memory)
    assert_same(found)
    pickled = sum(ARRAYS[name].nbytes for name in ("sparse", "bfloat16"))
    assert len(payload.form) < pickled + OUT_OF_BAND_BYTES


async def test_arrays_survive_a_round_trip_between_processes_and_leave_no_file_open() -> None:
    workers = ConformanceWorkers(1)
    assert await workers.do(int) == 0
    files = len(list(Path("/proc/self/fd").iterdir()))
    assert_same(await workers.do(dict, ARRAYS))
    with pytest.raises(ZeroDivisionError):
        await workers.do(partial(divmod, 1), 0)
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    await workers.close()
