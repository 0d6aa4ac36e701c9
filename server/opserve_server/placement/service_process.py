"""A service of a farm as a child process: its environment, its start and its drain."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from threading import Thread

from opserve_kernels.profiles import DEFAULT_PROFILE
from opserve_server.settings import PREFIX, Settings, settings_of_environment

_PROGRAM = "opserve_server.placement.with_parent"


def service_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The service's settings in an environment, by their variables; no variable of a client."""
    names = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    return {name: value for name, value in environment.items() if name.upper() in names}


def service_environment(
    name: str, *, profile: str, host: str, settings: Mapping[str, str]
) -> dict[str, str]:
    """The variables of one service: its name, its device, and free ports of its host.

    Args:
        name: Name of the service in its farm.
        profile: Profile of its device.
        host: Address of the host, for clients and for the other services.
        settings: Settings of all services of the farm.
    """
    bound = f"[{host}]:0" if ":" in host else f"{host}:0"
    own = {
        "FARM_NAME": name,
        "DEVICES": json.dumps([profile]),
        "GRPC_ADDRESS": bound,
        "REST_ADDRESS": bound,
    }
    return {**settings, **{f"{PREFIX}{key}": value for key, value in own.items()}}


def check_settings(settings: Mapping[str, str]) -> None:
    """Checks the settings of all services here, before a service fails by them elsewhere.

    Raises:
        SettingRefused: A setting is wrong.
    """
    example = service_environment("x", profile=DEFAULT_PROFILE, host="127.0.0.1", settings=settings)
    before = dict(os.environ)
    os.environ.update(example)
    try:
        settings_of_environment()
    finally:
        for name in example:
            del os.environ[name]
        os.environ.update(before)


class ServiceProcess:
    """A running service, which drains when this process or the starting thread ends.

    Args:
        environment: Variables of the service beside those of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._addresses: dict[str, str] | None = None
        self._process = subprocess.Popen(  # noqa: S603  # the same interpreter
            [sys.executable, "-P", "-m", _PROGRAM, f"{os.getpid()}"],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id of the front process."""
        return self._process.pid

    @property
    def addresses(self) -> dict[str, str] | None:
        """Its addresses by API, "grpc" and "rest", once it accepts calls."""
        return self._addresses

    def wait(self) -> int:
        """Waits for its end; returns its exit status."""
        return self._process.wait()

    def drain(self) -> None:
        """Sends SIGTERM, upon which the service accepts no session and completes work; waits."""
        self._process.terminate()
        self._process.wait()

    def _read(self) -> None:
        """Reads the line that announces the addresses, then discards the output."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                ready = json.loads(line)
                self._addresses = {"grpc": ready["grpc"], "rest": ready["rest"]}
