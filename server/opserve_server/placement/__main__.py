"""`opserve farm up | scale | drain | down`: services of a farm, placed by Ray."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from threading import Event
from types import FrameType

from opserve_kernels.status import ExitStatus
from opserve_server.placement import farm
from opserve_server.placement.service_process import check_settings, service_settings
from opserve_server.settings import SettingRefused

_POLL_S = 1.0


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="opserve farm", description=__doc__)
    parser.add_argument("command", choices=("up", "scale", "drain", "down"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ray", required=True)
    given = parser.parse_intermixed_args(arguments)
    try:
        farm.check_access(given.ray, os.environ)
        _run(given.command, given.names, address=given.ray)
    except SettingRefused as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return ExitStatus.UNUSABLE
    except farm.Refused as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return ExitStatus.FAILED
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    return ExitStatus.DONE


def _run(command: str, names: Sequence[str], *, address: str) -> None:
    counts = farm.counts_of(names) if command in {"up", "scale"} else {}
    settings = service_settings(os.environ)
    if counts:
        check_settings(settings)
    os.environ.update(farm.RAY_ENVIRONMENT | os.environ)
    from opserve_server.placement import ray_cluster  # noqa: PLC0415  # reads the environment

    with ray_cluster.connected(address) as head:
        match command:
            case "drain":
                ray_cluster.drain(names)
            case "down":
                ray_cluster.drain(ray_cluster.services())
            case _:
                ray_cluster.scale(counts, settings=settings)
                for name, found in ray_cluster.addresses(ray_cluster.services()).items():
                    sys.stdout.write(f"{name} {found['grpc']} {found['rest']}\n")
        if address == farm.LOCAL:
            sys.stdout.write(f"Ray {head}\n")
            sys.stdout.flush()
            _stay()


def _stay() -> None:
    """Keeps the Ray of this process until it runs no service; a signal drains them all."""
    from opserve_server.placement import ray_cluster  # noqa: PLC0415  # as above

    stop = Event()

    def receive(_: int, __: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, receive)
    while running := ray_cluster.services():
        if stop.wait(_POLL_S):
            ray_cluster.drain(running)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
