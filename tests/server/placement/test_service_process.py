"""Services as child processes: their settings, and their ends."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from opserve_client.private_service import PRIVATE_SETTINGS
from opserve_server.placement.service_process import (
    check_settings,
    service_environment,
    service_settings,
)
from opserve_server.settings import SettingRefused

SETTINGS = {f"OPSERVE_{key.upper()}": value for key, value in PRIVATE_SETTINGS.items()} | {
    "OPSERVE_DEVICES": '["reference"]'
}
PARENT = """
import json, sys, time
from opserve_server.placement.service_process import ServiceProcess
service = ServiceProcess(json.loads(sys.argv[1]))
while service.addresses is None:
    time.sleep(0.01)
print(service.pid)
print(json.dumps(service.addresses), flush=True)
input()
service.drain()
print(service.wait())
"""


def test_only_settings_of_the_service_are_sent() -> None:
    given = {"OPSERVE_DEVICE_THREADS": "2", "OPSERVE_API_KEY": "secret", "HOME": "/root"}
    assert service_settings(given) == {"OPSERVE_DEVICE_THREADS": "2"}


@pytest.mark.parametrize(("host", "bound"), [("10.0.0.7", "10.0.0.7:0"), ("::1", "[::1]:0")])
def test_a_service_has_its_device_and_free_ports_of_its_host(host: str, bound: str) -> None:
    settings = {"OPSERVE_DEVICES": '["reference"]', "OPSERVE_CHUNK_BYTES": "1MiB"}
    made = service_environment("a-s0", profile="ascend910b", host=host, settings=settings)
    assert made["OPSERVE_FARM_NAME"] == "a-s0"
    assert json.loads(made["OPSERVE_DEVICES"]) == ["ascend910b"]
    assert made["OPSERVE_GRPC_ADDRESS"] == made["OPSERVE_REST_ADDRESS"] == bound
    assert made["OPSERVE_CHUNK_BYTES"] == "1MiB"


def test_a_wrong_setting_is_reported_before_a_service_starts() -> None:
    with pytest.raises(SettingRefused, match="device_threads"):
        check_settings({"OPSERVE_DEVICE_THREADS": "0"})


def test_a_farm_needs_a_store_that_its_services_share() -> None:
    with pytest.raises(SettingRefused, match="set OPSERVE_STORE_URL to postgresql"):
        check_settings({"OPSERVE_STORE_URL": "sqlite:///opserve.db"})


def test_checked_settings_leave_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    check_settings({"OPSERVE_STORE_URL": "postgresql://user@/opserve?host=/tmp"})
    assert dict(os.environ) == before


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process with a service that accepts calls, which it drains after a line of input."""
    command = [sys.executable, "-c", PARENT, json.dumps(SETTINGS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.mark.system
def test_a_drained_service_ends_with_success(parent: subprocess.Popen[str]) -> None:
    output, _ = parent.communicate("drain\n")
    pid, addresses, status = output.splitlines()
    assert set(json.loads(addresses)) == {"grpc", "rest"}
    assert status == "0"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.system
def test_a_service_ends_when_its_parent_is_killed(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None
    service = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    assert select.select([service], [], [])[0] == [service]  # readable at its end
    os.close(service)
