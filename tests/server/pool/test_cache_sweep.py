"""A call of cold caches: the worker sweeps memory of its own before it, and only before it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from opserve_server.pool.cache_sweep import CacheSweep, last_cache_bytes
from opserve_server.pool.device import Device
from server.pool.toys import run, toy_call, toy_device


def resident_bytes(pid: int | None) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


@pytest.fixture
async def device() -> AsyncIterator[Device]:
    device = toy_device(threads=2)
    await device.start()
    yield device
    await device.stop()


@pytest.mark.system
async def test_the_worker_sweeps_before_a_cold_call_alone(device: Device) -> None:
    slab = device.slabs.take(1)
    device.attach(slab)
    call = toy_call("count_units", slab, shares=(100, 100))
    await run(device, call)
    warm = resident_bytes(device.worker_pid)
    timing = await run(device, replace(call, cold=True))
    cold = resident_bytes(device.worker_pid)
    await run(device, replace(call, cold=True))
    again = resident_bytes(device.worker_pid)
    assert cold - warm > 1.9 * last_cache_bytes(), "the sweep's memory is backed by pages"
    assert again - cold < 0.1 * last_cache_bytes(), "later sweeps take no more"
    assert timing.start_ns <= timing.end_ns
    assert slab.memory[0] == 3


def test_a_sweep_reads_all_its_memory_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opserve_server.pool.cache_sweep.last_cache_bytes", lambda: 3 * 2**20 // 2)
    sweep = CacheSweep()
    assert sweep.units == 3
    sweep.prepare()
    words = sweep._words
    assert words.nbytes == 3 * 2**20
    read: list[int] = []

    class Noticing(np.ndarray[Any, Any]):
        @override
        def max(self, *_: Any, **__: Any) -> int:  # type: ignore[override]
            read.append((self.ctypes.data - words.ctypes.data) // 2**20)
            return 1

    sweep._words = words.view(Noticing)
    sweep.run(1, 5)
    assert read == [1, 2, 0, 1]
    sweep.prepare()
    assert np.shares_memory(sweep._words, words)
