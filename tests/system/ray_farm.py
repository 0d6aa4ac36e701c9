"""Ray clusters for drills, each machine of them a process, in a network with loopback alone."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.census import children_of

HEAD = "127.0.0.1:6379"
PROGRAMS = Path(sys.executable).parent
RAY = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    # Of the head: a machine without its raylet is lost after three checks, one a second.
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
START = ["start", "--block", "--include-log-monitor=false", "--dashboard-agent-listen-port=0"]


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster whose head runs no service."""

    folder: Path
    head: "subprocess.Popen[bytes]"
    _stack: ExitStack = field(repr=False)

    def add_machine(self, **resources: int) -> "subprocess.Popen[bytes]":
        """Starts a machine with resources, and CPUs for each of them."""
        named = ",".join(f'"{name}": {number}' for name, number in resources.items())
        cpus = f"--num-cpus={2 * sum(resources.values())}"
        return self._stack.enter_context(
            _machine(f"--address={HEAD}", cpus, f"--resources={{{named}}}")
        )


@contextmanager
def ray_cluster() -> Generator[RayCluster]:
    """A cluster until the block ends; then its processes are killed."""
    with TemporaryDirectory(prefix="ray-") as name, ExitStack() as stack:
        head = stack.enter_context(
            _machine(
                "--head",
                "--include-dashboard=false",
                f"--port={HEAD.rpartition(':')[2]}",
                f"--temp-dir={name}",  # short, as the path of a socket has at most 107 bytes
                "--num-cpus=0",
            )
        )
        yield RayCluster(Path(name), head, stack)


def pid_of(machine: "subprocess.Popen[bytes]", program: str) -> int:
    """The process of a machine that runs one of Ray's programs: raylet or gcs_server."""
    (found,) = [
        child
        for child in children_of(machine.pid)
        if Path(f"/proc/{child}/exe").readlink().name == program
    ]
    return found


def front_of(service: str) -> int:
    """The front process of a service, by its name in the farm."""
    name = f"OPSERVE_FARM_NAME={service}".encode()
    fronts = [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if _read(folder / "cmdline").endswith(b"-m\0opserve_server\0")
        and name in _read(folder / "environ").split(b"\0")
    ]
    return min(fronts)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


@contextmanager
def _machine(*options: str) -> Generator["subprocess.Popen[bytes]"]:
    command = [f"{PROGRAMS / 'ray'}", *START, *options]
    process = subprocess.Popen(command, env=os.environ | RAY, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert any(b"Ray runtime started" in line for line in process.stdout), (
            "Ray ended at its start"
        )
        yield process
    finally:
        for child in children_of(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate()
