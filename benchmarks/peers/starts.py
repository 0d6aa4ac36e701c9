"""Start and memory of services: seconds until they are ready, and bytes of all their processes."""

from collections.abc import Mapping
from contextlib import suppress
from os import getpid
from pathlib import Path
from time import perf_counter

from benchmarks.census import children_of
from benchmarks.peers.triton_server import triton
from benchmarks.rounds import Pair
from opserve_client.private_service import private_service

DEVICES = '["ascend910b", "ascend910", "ascend310p", "reference"]'
READY = "ready with 4 devices and warm kernels, s | Triton"
MEMORY = "memory with 4 devices, MB | Triton"


def measure_starts(python: Path) -> Mapping[str, Pair]:
    """Starts opserve and Triton, one after the other.

    Args:
        python: Interpreter of the environment that has Triton.
    """
    others = set(children_of(getpid()))
    begin_s = perf_counter()
    with private_service(devices=DEVICES):
        ready_s = perf_counter() - begin_s
        (front, *_) = [child for child in children_of(getpid()) if child not in others]
        memory = memory_mb(front)
    with triton(python) as server:
        return {
            READY: Pair(subject=ready_s, yardstick=server.ready_s),
            MEMORY: Pair(subject=memory, yardstick=memory_mb(server.process)),
        }


def memory_mb(process: int) -> float:
    """Returns the memory of a process and all that it started: shared pages in parts (PSS)."""
    return sum(_pss_kib(each) for each in (process, *children_of(process))) * 1024 / 1e6


def _pss_kib(process: int) -> int:
    with suppress(OSError):  # the process has ended meanwhile
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
