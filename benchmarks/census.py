"""Resources of a service's processes, as the Linux kernel counts them."""

from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

_PARENT = 1
"""Index of the parent's number after the name in /proc/PID/stat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Resources of a service at one time.

    Attributes:
        front_mib: Private memory of the front, MiB.
        workers_mib: Private memory of all other processes, MiB.
        slabs_mib: Device memory that is mapped in the front, MiB.
        memfds: Open descriptors of device memory, in all processes.
        descriptors: Other open descriptors of all processes.
        threads: Threads of all processes.
        processes: Number of processes: the front and those that it started.
    """

    front_mib: float
    workers_mib: float
    slabs_mib: float
    memfds: int
    descriptors: int
    threads: int
    processes: int


def census(front: int) -> Census:
    """Counts the resources of the front and of the processes that it started."""
    processes = [front, *children_of(front)]
    open_ones = [link for process in processes for link in descriptors_of(process)]
    memory = [_status(process, "RssAnon") / 1024 for process in processes]
    memfds = sum(link.startswith("/memfd:") for link in open_ones)
    return Census(
        front_mib=memory[0],
        workers_mib=sum(memory[1:]),
        slabs_mib=_status(front, "RssShmem") / 1024,
        memfds=memfds,
        descriptors=len(open_ones) - memfds,
        threads=sum(_status(process, "Threads") for process in processes),
        processes=len(processes),
    )


COUNTED = tuple(field.name for field in fields(Census))


def children_of(process: int) -> list[int]:
    """Returns the processes that a process started, directly or indirectly."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended meanwhile
            behind_name = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(behind_name[_PARENT]) == process:
                found += [int(folder.name), *children_of(int(folder.name))]
    return found


def descriptors_of(process: int) -> list[str]:
    """Returns the targets of a process's open descriptors."""
    found: list[str] = []
    with suppress(OSError):  # the process has ended, or closed a descriptor, meanwhile
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.append(str(entry.readlink()))
    return found


def _status(process: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0
