"""Processors and memory available to this process, within the limits of its container."""

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

ROOT = Path("/")
_GROUPS = "sys/fs/cgroup"
_NO_LIMIT = 2**60
"""Version 1 writes a number near 2^63 for no limit."""


def cpu_count(root: Path = ROOT) -> int:
    """Processors in the affinity mask, or fewer by a quota of a control group; at least 1.

    Args:
        root: Root of the file system.
    """
    quotas = [*_quotas(root), *_quotas_of_version_1(root)]
    return max(1, min(len(os.sched_getaffinity(0)), *(ceil(quota) for quota in quotas), 2**31))


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Memory limit of the control groups of this process, bytes; None without a limit.

    Args:
        root: Root of the file system.
    """
    texts = [
        *_contents(root, "", "memory.max"),
        *_contents(root, "memory", "memory.limit_in_bytes"),
    ]
    limits = [int(text) for text in texts if text.isdigit() and int(text) < _NO_LIMIT]
    return min(limits, default=None)


def _quotas(root: Path) -> Iterator[float]:
    """Quotas of version 2: "200000 100000" means two processors, "max 100000" no limit."""
    for text in _contents(root, "", "cpu.max"):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _quotas_of_version_1(root: Path) -> Iterator[float]:
    quotas = _contents(root, "cpu", "cpu.cfs_quota_us")
    periods = _contents(root, "cpu", "cpu.cfs_period_us")
    for quota, period in zip(quotas, periods, strict=False):
        if quota.isdigit() and period.isdigit():  # no limit is -1
            yield int(quota) / int(period)


def _contents(root: Path, controller: str, name: str) -> Iterator[str]:
    """A file of this process's group and of each group above, whose limits apply too.

    In a container the path may be the host's, while the group itself is mounted at the top.
    """
    top = root / _GROUPS / controller
    for group in _groups(root, controller):
        place = top / group.lstrip("/")
        for folder in (place, *place.parents):
            with suppress(OSError):
                yield (folder / name).read_text().strip()
            if folder == top:
                break


def _groups(root: Path, controller: str) -> Iterator[str]:
    """Paths of this process's groups; version 2 has one, without a controller."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                yield path
