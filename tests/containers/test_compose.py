"""The image and the compose files, by the commands of docs/how-to/containers.md, in an engine."""

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from containers.engine import REPOSITORY, Engine, Project, engine, missing_programs

FILES = (".dockerignore", "Dockerfile", "docker-compose.yml", "compose.tls.yml", "constraints.txt")
FOLDERS = ("protos", "kernels", "server", "client", "tools")
USER = 10001  # of the image
STOPPED = 0
PAGE = (REPOSITORY / "docs/how-to/containers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ON_ONE_MACHINE, KEY, FOR_A_TEAM = BLOCKS
UP, SMOKE = ON_ONE_MACHINE.splitlines()
COMPOSE = ["docker", "compose"]
pytestmark = [
    pytest.mark.containers,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        bool(missing_programs()) or os.geteuid() != 0,
        reason="needs root and an engine (apt-get install docker.io debootstrap iptables)",
    ),
]


@pytest.fixture(scope="module")
def running_engine() -> Iterator[Engine]:
    with engine() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone of the repository has for the image and the compose files."""
    made = tmp_path_factory.mktemp("project")
    for name in (*FILES, "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, made)
    for name in FOLDERS:
        unwanted = shutil.ignore_patterns("__pycache__", ".venv*")
        shutil.copytree(REPOSITORY / name, made / name, ignore=unwanted)
    return made


@pytest.fixture(scope="module")
def project(running_engine: Engine, folder: Path) -> Iterator[Project]:
    started = running_engine.project(folder, "docker-compose.yml")
    run(started, UP)
    yield started
    started.run("down", "--volumes")


@pytest.fixture
def up(project: Project) -> Project:
    """The service, ready."""
    project.run("up", "--wait", "service")
    return project


def run(project: Project, command: str) -> str:
    """Runs a command of the page."""
    words = shlex.split(command)
    assert words[:2] == COMPOSE
    return project.run(*words[2:])


def smoke(project: Project) -> list[str]:
    """The addresses at which the smoke client got right answers."""
    lines = run(project, SMOKE).splitlines()
    return [line.split()[0] for line in lines if "ascend910b-0" in line]


def test_the_smoke_client_passes_over_both_wires_with_the_first_key(up: Project) -> None:
    assert smoke(up) == ["service:50051", "http://service:8080"]


def test_the_service_offers_a_device_and_the_reference(up: Project) -> None:
    listed = up.run("run", "--rm", "smoke", "sh", "-euc", DEVICES)
    assert listed.split() == ["ascend910b", "reference"]


DEVICES = """
export OPSERVE_API_KEY="$(cat /var/lib/opserve/admin.key)"
python -c "
from opserve_client import Client
with Client('service:50051') as client:
    print(*[device.profile for device in client.list_devices()])
"
"""


def test_a_service_that_is_killed_comes_back_with_its_keys(up: Project) -> None:
    assert up.state("service", "{{.RestartCount}}") == "0"
    os.kill(int(up.state("service", "{{.State.Pid}}")), signal.SIGKILL)
    while up.state("service", "{{.RestartCount}}") == "0":
        pass  # the engine starts it again, by its restart policy
    up.run("up", "--wait", "service")
    assert len(smoke(up)) == 2


def test_a_restart_keeps_the_first_key(up: Project) -> None:
    shown = KEY.partition("$(")[2].rstrip().removesuffix(")")
    key = run(up, shown)
    up.run("down")
    up.run("up", "--wait", "service")
    assert run(up, shown) == key
    assert len(smoke(up)) == 2


def test_a_stop_drains_and_ends_by_itself(up: Project) -> None:
    up.run("stop", "service")
    assert int(up.state("service", "{{.State.ExitCode}}")) == STOPPED
    assert up.state("service", "{{.State.OOMKilled}}") == "false"


def test_memory_and_processors_are_limited(up: Project) -> None:
    limits = up.state("service", "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}").split()
    assert [int(limit) for limit in limits] == [4 << 30, 2_000_000_000]


def test_a_team_is_served_over_tls(running_engine: Engine, folder: Path, project: Project) -> None:
    project.run("down")
    authority = trustme.CA()
    (folder / "tls").mkdir()
    issued = authority.issue_cert("service")
    issued.cert_chain_pems[0].write_to_path(folder / "tls/server.crt")
    issued.private_key_pem.write_to_path(folder / "tls/server.key")
    authority.cert_pem.write_to_path(folder / "tls/ca.crt")
    os.chown(folder / "tls/server.key", USER, USER)
    over_tls = running_engine.project(folder, "docker-compose.yml", "compose.tls.yml")
    run(Project(running_engine, folder, [str(running_engine.compose)]), FOR_A_TEAM)
    assert smoke(over_tls) == ["grpcs://service:50051", "https://service:8080"]
    published = over_tls.run("port", "service", "50051").split()
    assert [address.rpartition(":")[0] for address in published] == ["0.0.0.0"]
    over_tls.run("down")
