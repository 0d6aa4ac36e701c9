"""Built distributions in empty environments: each extra, lowest versions, protobuf 6 and 7."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opserve_client.private_service import Addresses

REPOSITORY = Path(__file__).resolve().parents[2]
PINNED = ("--constraint", f"{REPOSITORY / 'constraints.txt'}")
LOWEST = ("--resolution", "lowest-direct")
SMOKE = f"{REPOSITORY / 'tools/smoke.py'}"
SMOKE_OF_ITS_OWN = """
import subprocess, sys
from opserve_client.private_service import private_service
with private_service(devices='["reference"]') as addresses:
    subprocess.run([sys.executable, sys.argv[1], addresses.grpc, addresses.rest], check=True)
"""
pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", f"{folder}", cwd=REPOSITORY)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.mark.parametrize(
    ("kind", "versions"),
    [("wheel", PINNED), ("wheel", LOWEST), ("sdist", PINNED)],
    ids=["wheel", "wheel, lowest versions", "sdist"],
)
def test_a_client_alone_calls_a_service_over_both_wires(
    built: dict[str, Path], kind: str, versions: tuple[str, ...], tmp_path: Path, service: Addresses
) -> None:
    python = environment(tmp_path, f"{built[kind]}", *versions)
    run(python, "-W", "error", SMOKE, service.grpc, service.rest, cwd=tmp_path)
    run(python, "-m", "opserve_client.cli", "--server", service.grpc, "devices", cwd=tmp_path)


def test_a_client_shares_an_environment_with_tritonclient(
    built: dict[str, Path], tmp_path: Path, service: Addresses
) -> None:
    python = environment(tmp_path, f"{built['wheel']}", "tritonclient[grpc]")
    version = run(python, "-c", "import google.protobuf as p; print(p.__version__)", cwd=tmp_path)
    assert version.startswith("6.")
    run(python, "-c", "import tritonclient.grpc, opserve_client", cwd=tmp_path)
    run(python, SMOKE, service.grpc, service.rest, cwd=tmp_path)


def test_a_server_of_the_lowest_versions_serves(built: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path, f"{built['wheel']}[server]", *LOWEST)
    run(python, "-c", SMOKE_OF_ITS_OWN, SMOKE, cwd=tmp_path)


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("conform", "opserve_client.conform.onnx_folders"),
        ("demo", "opserve_client.demo, sklearn"),
        ("server,otel", "opserve_server.telemetry.traces, opentelemetry.sdk"),
    ],
)
def test_an_extra_brings_what_its_modules_import(
    built: dict[str, Path], extra: str, modules: str, tmp_path: Path
) -> None:
    python = environment(tmp_path, f"{built['wheel']}[{extra}]", *PINNED)
    run(python, "-c", f"import {modules}", cwd=tmp_path)


def environment(folder: Path, *requirements: str) -> str:
    """The Python of a new environment that holds these."""
    made = folder / "environment"
    run("uv", "venv", "--quiet", "--python", sys.executable, f"{made}", cwd=folder)
    python = f"{made / 'bin/python'}"
    run("uv", "pip", "install", "--quiet", "--python", python, *requirements, cwd=folder)
    return python


def run(program: str, *arguments: str, cwd: Path) -> str:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=settings | {"PATH": scripts},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
