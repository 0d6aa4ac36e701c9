"""What the processes of a service hold, as the kernel counts it."""

from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

_PARENT = 1
"""Place of the parent's number behind the name in /proc/PID/stat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What a service holds at one moment.

    Attributes:
        front_mib: Memory of the front's own, MiB.
        workers_mib: The same of all processes that it started, MiB.
        slabs_mib: Memory of devices that is mapped in the front, MiB.
        memfds: Open descriptors of device memory, in all of them.
        descriptors: Their other open descriptors.
        threads: Threads of all of them.
        processes: The front and those that it started.
    """

    front_mib: float
    workers_mib: float
    slabs_mib: float
    memfds: int
    descriptors: int
    threads: int
    processes: int


def census(front: int) -> Census:
    """Counts what the front of a service and the processes that it started hold."""
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
    """Processes that a process started, and those that they did."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            behind_name = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(behind_name[_PARENT]) == process:
                found += [int(folder.name), *children_of(int(folder.name))]
    return found


def descriptors_of(process: int) -> list[str]:
    """What the descriptors of a process are open on."""
    found: list[str] = []
    with suppress(OSError):  # the process has ended, or closed one meanwhile
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
