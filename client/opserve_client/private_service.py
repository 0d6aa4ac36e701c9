"""Private services: a child process with a service on free loopback ports."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from opserve_client import extras

START_TIMEOUT_S = 600.0
"""Time limit of a start: the first one compiles kernels. A failed start ends at once."""
STOP_TIMEOUT_S = 15.0
PRIVATE_SETTINGS = {
    "grpc_address": "127.0.0.1:0",
    "rest_address": "127.0.0.1:0",
    "log_level": "WARNING",
    "store_url": "",
    "no_keys": "true",
}
_ANOTHER = "connect to one that runs elsewhere, with --server or --address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses of a service: "127.0.0.1:50051" and "http://127.0.0.1:8080"."""

    grpc: str
    rest: str


def require_server() -> None:
    """Checks that this computer can start a service.

    Raises:
        OSError: The system is not Linux, or the server is not installed.
    """
    if sys.platform != "linux":
        raise OSError(f"the service runs on Linux only: {_ANOTHER}")
    try:
        extras.require("server", need="a service on this computer")
    except extras.MissingExtra as error:
        raise OSError(f"{error}, or {_ANOTHER}") from error


@contextmanager
def private_service(**settings: str) -> Generator[Addresses]:
    """Runs a service until the block ends.

    Args:
        settings: Settings of the server by their lower-case names, e.g. devices='["ascend910b"]'.

    Raises:
        OSError: The system is not Linux, or the server is not installed.
        RuntimeError: The server does not start; its log is on standard error.
    """
    require_server()
    chosen = PRIVATE_SETTINGS | settings
    environment = os.environ | {f"OPSERVE_{k.upper()}": v for k, v in chosen.items()}
    process = _started(environment)
    try:
        yield _ready_addresses(process)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _started(environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a service with SIGINT blocked, which a child process inherits.

    A terminal sends Ctrl-C to the service, too. It would be the first of two signals to stop, the
    second of which ends work that still runs.
    """
    if sys.platform == "win32":  # has no masks of signals
        raise AssertionError("require_server checks the system")
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # the same interpreter and the server's module
            [sys.executable, "-P", "-m", "opserve_server"], stdout=subprocess.PIPE, env=environment
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _ready_addresses(process: "subprocess.Popen[bytes]") -> Addresses:
    """Reads the line that the server prints once both APIs accept calls."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise RuntimeError(
            f"the service did not start within {START_TIMEOUT_S:g} s; its log says why"
        )
    ready = json.loads(line)
    return Addresses(grpc=ready["grpc"], rest=ready["rest"])
