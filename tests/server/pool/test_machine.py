"""Limits of a container, as Linux writes them into files."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from opserve_server.pool.machine import cpu_count, memory_limit_bytes

GIB = 2**30
V2, V1 = "0::/farm/service\n", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/\n"


def machine(folder: Path, groups: str, files: Mapping[str, str]) -> Path:
    """A root of a file system with these files of control groups."""
    written = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": groups, **written}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(autouse=True)
def sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def affinity(_: int) -> set[int]:
        return set(range(16))

    monkeypatch.setattr(os, "sched_getaffinity", affinity)


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        (V2, {"farm/service/cpu.max": "200000 100000\n"}, 2),
        (V2, {"farm/service/cpu.max": "250000 100000\n"}, 3),
        (V2, {"farm/service/cpu.max": "10000 100000\n"}, 1),
        (V2, {"farm/service/cpu.max": "max 100000\n"}, 16),
        (V2, {"farm/service/cpu.max": "max 100000\n", "farm/cpu.max": "400000 100000\n"}, 4),
        (V2, {"farm/service/cpu.max": "9900000 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
        (V1, {"cpu/docker/1/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_quota_us": "-1\n"}, 16),
        (V1, {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 3),
        (V2, {}, 16),
        ("", {}, 16),
    ],
)
def test_a_quota_of_the_container_bounds_the_processors(
    tmp_path: Path, groups: str, files: Mapping[str, str], cpus: int
) -> None:
    assert cpu_count(machine(tmp_path, groups, files)) == cpus


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        (V2, {"farm/service/memory.max": f"{GIB}\n"}, GIB),
        (V2, {"farm/service/memory.max": "max\n"}, None),
        (V2, {"farm/service/memory.max": f"{4 * GIB}\n", "farm/memory.max": f"{GIB}\n"}, GIB),
        ("0::/\n", {"memory.max": f"{2 * GIB}\n"}, 2 * GIB),
        (V1, {"memory/docker/1/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (V1, {"memory/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (V1, {"memory/docker/1/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        (V2, {}, None),
    ],
)
def test_a_limit_of_the_container_bounds_the_memory(
    tmp_path: Path, groups: str, files: Mapping[str, str], limit: int | None
) -> None:
    assert memory_limit_bytes(machine(tmp_path, groups, files)) == limit
