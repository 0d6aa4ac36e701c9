"""A client of the previous release works with this service, and this client with that one."""

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from opserve_client import Client, OpserveError, private_service
from opserve_client.private_service import Addresses
from previous_release import COMMIT, REPOSITORY, VERSION

CALLS = Path(__file__).with_name("previous_release_calls.py")
DEVICES = {"devices": '["ascend910b", "reference"]'}
pytestmark = [
    *(pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)),
    pytest.mark.previous_release,
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commit of the previous release."""
    folder = tmp_path_factory.mktemp("sources")
    packed = folder / "sources.tar"
    archive = ["git", "archive", "--output", str(packed), COMMIT]
    subprocess.run(archive, cwd=REPOSITORY, check=True)
    subprocess.run(["tar", "-xf", str(packed), "-C", str(folder)], check=True)  # noqa: S607
    return folder


@pytest.fixture(scope="module")
def release(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the previous release, unpacked; it needs the packages that this one needs."""
    folder = tmp_path_factory.mktemp("release")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=sources, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "installed")
    return folder / "installed"


def environment_of(release: Path) -> Mapping[str, str]:
    return os.environ | {"PYTHONPATH": str(release), "OPSERVE_STORE_URL": ""}


def calls_of(client: Mapping[str, str], rest: str, *addresses: str) -> str:
    """The folder of the client whose calls all passed."""
    command = [sys.executable, str(CALLS), rest, *addresses]
    done = subprocess.run(command, env=client, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.removeprefix("passed ").strip()


@contextmanager
def service_of(release: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Addresses]:
    """A service of the previous release."""
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(release))
        running = private_service.private_service(**DEVICES)
        service = running.__enter__()
    try:
        yield service
    finally:
        running.__exit__(None, None, None)


def test_a_client_of_the_previous_release_works_with_this_service(release: Path) -> None:
    with private_service.private_service(**DEVICES) as service:
        found = calls_of(environment_of(release), service.rest, service.grpc, service.rest)
    assert found.startswith(str(release))


def test_this_client_works_with_a_service_of_the_previous_release(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_of(release, monkeypatch) as service:
        found = calls_of(os.environ, service.rest, service.grpc)
        with (
            Client(service.rest) as client,
            pytest.raises(OpserveError, match="does not serve Connect"),
        ):
            client.list_devices()
    assert found.startswith(str(REPOSITORY))


def test_the_kept_protos_and_version_are_those_of_the_previous_release(
    sources: Path, tmp_path: Path
) -> None:
    project = tomllib.loads((sources / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    built = tmp_path / "previous_release.binpb"
    buf = f"{Path(sys.executable).with_name('buf')}"
    build = [buf, "build", "protos", "--exclude-source-info", "--output", f"{built}"]
    subprocess.run(build, cwd=sources, check=True)
    kept = REPOSITORY / "protos/previous_release.binpb"
    assert built.read_bytes() == kept.read_bytes()
