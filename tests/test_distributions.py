"""The wheel and the sdist: every file of the packages, byte by byte, and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from test_tidy import REPOSITORY, files

PACKAGES = (
    *("protos/opserve", "kernels/opserve_kernels", "server/opserve_server"),
    *("client/opserve_client", "client/opserve_pytest"),
)
DATA = (
    "opserve/py.typed",
    "opserve/v1/py.typed",
    "opserve/v1/tensor.proto",
    "opserve_client/conform/report/page/app.js",
    "opserve_client/conform/report/page/page.html",
    "opserve_client/py.typed",
    "opserve_kernels/py.typed",
    "opserve_pytest/py.typed",
    "opserve_server/py.typed",
    "opserve_kernels/conformance/page/theme.css",
    "opserve_server/dashboard/page/app.js",
    "opserve_server/dashboard/vendor/htm.LICENSE.txt",
    "opserve_server/dashboard/vendor/htm-preact.js",
    "opserve_server/rest_api/docs_page/LICENSE",
    "opserve_server/rest_api/docs_page/NOTICE",
    "opserve_server/rest_api/docs_page/swagger-ui-bundle.js",
    "opserve_server/rest_api/docs_page/swagger-ui-bundle.js.LICENSE.txt",
    "opserve_server/store/migrations/env.py",
)
"""Files that no import would miss."""
pytestmark = pytest.mark.system


def build(target: str, folder: Path, *, sources: Path = REPOSITORY) -> Path:
    """A distribution of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", f"{folder}"]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return content(build("wheel", tmp_path_factory.mktemp("wheel")))


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(
    wheel: dict[str, bytes],
) -> None:
    information = {name for name in wheel if name.split("/")[0].endswith(".dist-info")}
    expected = {
        path.relative_to(Path(package).parent).as_posix(): (REPOSITORY / path).read_bytes()
        for package in PACKAGES
        for path in files()
        if path.is_relative_to(package)
    }
    assert {name: wheel[name] for name in wheel if name not in information} == expected
    assert set(DATA) <= set(expected)
    assert {name.partition("/")[2] for name in information} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"),
    }


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: dict[str, bytes], tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    assert content(build("wheel", tmp_path / "wheel", sources=sources)) == wheel
