"""The container files, as far as they can be checked without a container engine."""

import ipaddress
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from opserve_client.private_service import Addresses
from opserve_server.core.keys import is_well_formed
from opserve_server.settings import Settings
from opserve_server.store.location import File, location_of

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
RUNTIME_STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :].replace("\\\n", " ")
STATE = "/var/lib/opserve"
SETTINGS = {f"OPSERVE_{name.upper()}" for name in Settings.model_fields}


class ComposeService(BaseModel):
    model_config = ConfigDict(extra="ignore")

    environment: dict[str, str] = {}
    ports: list[str] = []
    volumes: list[str] = []
    depends_on: dict[str, dict[str, str]] = {}
    command: list[str] = []


class Compose(BaseModel):
    services: dict[str, ComposeService]
    volumes: dict[str, None]


@pytest.fixture
def compose() -> Compose:
    # ruamel leaves the type of its streams open
    content = YAML(typ="safe").load(REPOSITORY / "docker-compose.yml")  # pyright: ignore[reportUnknownMemberType]
    return Compose.model_validate(content)


def instruction(name: str) -> list[str]:
    return re.findall(rf"^{name} +(.*)$", RUNTIME_STAGE, flags=re.MULTILINE)


def settings_of_the_image() -> dict[str, str]:
    return dict(re.findall(r"(OPSERVE_\w+)=(\S+)", " ".join(instruction("ENV"))))


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfile_passes_hadolint() -> None:
    run(str(PROGRAMS / "hadolint"), "Dockerfile")


def test_compose_file_conforms_to_its_published_schema() -> None:
    checker = str(PROGRAMS / "check-jsonschema")
    run(checker, "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")


def test_image_does_not_run_as_root() -> None:
    assert int(instruction("USER")[-1]) > 0


def test_last_user_precedes_the_command() -> None:
    assert RUNTIME_STAGE.index("\nUSER ") < RUNTIME_STAGE.index("\nCMD ")


def test_image_checks_the_health_of_the_service() -> None:
    (check,) = instruction("HEALTHCHECK")
    _, _, port = settings_of_the_image()["OPSERVE_REST_ADDRESS"].rpartition(":")
    assert f"http://127.0.0.1:{port}/livez" in check


def test_image_exposes_the_ports_that_the_service_listens_on() -> None:
    settings = settings_of_the_image()
    addresses = (settings["OPSERVE_GRPC_ADDRESS"], settings["OPSERVE_REST_ADDRESS"])
    assert instruction("EXPOSE") == [" ".join(address.split(":")[1] for address in addresses)]


def test_image_sets_only_settings_that_exist() -> None:
    named = settings_of_the_image().keys()
    assert named
    assert named <= SETTINGS


def test_settings_of_the_image_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings_of_the_image().items():
        monkeypatch.setenv(name, value)
    assert Settings().allow_plaintext


def test_compose_sets_only_settings_that_exist(compose: Compose) -> None:
    named = {name for service in compose.services.values() for name in service.environment}
    assert {name for name in named if name.startswith("OPSERVE_")} <= SETTINGS


def test_compose_requests_devices_that_exist(
    compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = compose.services["service"].environment["OPSERVE_DEVICES"]
    monkeypatch.setenv("OPSERVE_DEVICES", devices)
    assert Settings().devices == json.loads(devices)


def test_compose_publishes_every_port_on_loopback_only(compose: Compose) -> None:
    ports = [port for service in compose.services.values() for port in service.ports]
    assert ports
    for port in ports:
        host, _, _ = port.rsplit(":", 2)
        assert ipaddress.ip_address(host.strip("[]")).is_loopback, port


def test_compose_publishes_ports_that_the_image_exposes(compose: Compose) -> None:
    published = {port.rpartition(":")[2] for port in compose.services["service"].ports}
    assert published == set(instruction("EXPOSE")[0].split())


def test_smoke_client_waits_for_a_healthy_service(compose: Compose) -> None:
    assert compose.services["smoke"].depends_on == {"service": {"condition": "service_healthy"}}


def test_compose_mounts_only_files_and_volumes_that_exist(compose: Compose) -> None:
    mounted = {name.split(":")[0] for one in compose.services.values() for name in one.volumes}
    files = {name for name in mounted if name.startswith("./")}
    assert [name for name in files if not (REPOSITORY / name).is_file()] == []
    assert mounted - files == compose.volumes.keys()


def test_the_first_key_is_made_in_the_store_of_the_service(compose: Compose) -> None:
    store = location_of(settings_of_the_image()["OPSERVE_STORE_URL"])
    assert isinstance(store, File)
    assert instruction("VOLUME") == [str(store.path.parent)] == [STATE]
    waited = {"bootstrap": {"condition": "service_completed_successfully"}}
    assert compose.services["service"].depends_on == waited
    for name in ("bootstrap", "service"):
        assert f"state:{STATE}" in compose.services[name].volumes
        assert "OPSERVE_STORE_URL" not in compose.services[name].environment


def command_in(folder: Path, service: ComposeService, **paths: Path) -> str:
    """Runs the command of a service with other folders than those of its image."""
    command = " ".join(service.command[-1:]).replace("$$", "$").replace(STATE, str(folder))
    for name, path in paths.items():
        command = command.replace(f"/{name}.py", str(path))
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPSERVE_STORE_URL": f"sqlite:///{folder / 'opserve.db'}",
    }
    return subprocess.run(
        [*service.command[:-1], command],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.slow
@pytest.mark.system
def test_the_first_key_is_made_once_and_read_by_the_smoke_client(
    compose: Compose, tmp_path: Path
) -> None:
    keys: list[str] = []
    for _ in range(2):
        assert command_in(tmp_path, compose.services["bootstrap"]) == ""
        keys.append((tmp_path / "admin.key").read_text())
    key, same = keys
    assert key == same
    assert is_well_formed(key.strip())
    assert (tmp_path / "admin.key").stat().st_mode & 0o777 == 0o600
    script = tmp_path / "printed.py"
    script.write_text("import os, sys\nprint(os.environ['OPSERVE_API_KEY'], *sys.argv[1:])\n")
    said = command_in(tmp_path, compose.services["smoke"], smoke=script)
    assert said.split() == [key.strip(), "service:50051", "http://service:8080"]
    (tmp_path / "admin.key").unlink()
    command_in(tmp_path, compose.services["bootstrap"])
    again = (tmp_path / "admin.key").read_text()
    assert again != key, "a lost key is replaced"


@pytest.mark.system
def test_smoke_client_passes_on_both_apis_of_a_service(service: Addresses) -> None:
    run(sys.executable, "tools/smoke.py", service.grpc, service.rest)


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "README.md", "LICENSE"])
def test_build_context_has_every_file_of_the_wheel(name: str) -> None:
    assert f"!{name}" in (REPOSITORY / ".dockerignore").read_text().splitlines()
