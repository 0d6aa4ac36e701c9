"""Built distributions in empty environments: each extra, lowest versions, protobuf 6 and 7."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from conformance.test_onnx_folders import IMAGE, TAPS, write_folder
from opserve_client.private_service import Addresses
from skips import needs_program
from test_examples import blocks

REPOSITORY = Path(__file__).resolve().parents[2]
PINNED = ("--constraint", f"{REPOSITORY / 'constraints.txt'}")
LOWEST = ("--resolution", "lowest-direct")
CI = REPOSITORY / "docs/ci"
SMOKE = f"{REPOSITORY / 'tools/smoke.py'}"
TOGETHER = f"{REPOSITORY / 'tests/system/triton_beside_opserve.py'}"
CASE = "im2col_backward.ascend910b.e324b9922f6dac02"
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
    devices = run(program(python), "devices", "--address", service.grpc, cwd=tmp_path)
    assert "ascend910b-0" in devices


def test_a_client_shares_an_environment_with_tritonclient(
    built: dict[str, Path], tmp_path: Path, service: Addresses
) -> None:
    python = environment(tmp_path, f"{built['wheel']}", "tritonclient[grpc,http]")
    version = run(python, "-c", "import google.protobuf as p; print(p.__version__)", cwd=tmp_path)
    assert version.startswith("6.")
    run(python, SMOKE, service.grpc, service.rest, cwd=tmp_path)
    said = run(python, TOGETHER, service.grpc, service.rest.removeprefix("http://"), cwd=tmp_path)
    assert said.split() == ["grpc", "http"]


@pytest.mark.parametrize(
    ("extras", "versions", "settings"),
    [
        ("server", PINNED, {}),
        ("server", LOWEST, {}),
        ("server,otel", PINNED, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}),
    ],
    ids=["server", "server, lowest versions", "server,otel"],
)
def test_a_server_serves(
    built: dict[str, Path],
    extras: str,
    versions: tuple[str, ...],
    settings: dict[str, str],
    tmp_path: Path,
) -> None:
    python = environment(tmp_path, f"{built['wheel']}[{extras}]", *versions)
    run(python, SMOKE, cwd=tmp_path, settings=settings)


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("server", ("serve",)),
        ("server", ("bootstrap",)),
        ("server", ("warmup",)),
        ("server", ("conform", "run", "--suite", "smoke", "--target", "target:fold")),
        ("admin", ("apply", "teams.yaml")),
        ("conform", ("conform", "cases", "--suite", "onnx:.")),
        ("demo", ("demo",)),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_command_without_its_extra_names_the_extra_in_one_sentence(
    client_alone: str, tmp_path: Path, extra: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "target.py").write_text("def fold(**_):\n    raise NotImplementedError\n")
    done = subprocess.run(
        [program(client_alone), *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode not in {0, -1}
    assert "Traceback" not in done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert f"pip install 'opserve[{extra}]'" in sentence


@pytest.fixture(scope="module")
def client_alone(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with the client alone."""
    return environment(tmp_path_factory.mktemp("client"), f"{built['wheel']}", *PINNED)


@needs_program("g++", there=shutil.which("g++") is not None, package="g++")
def test_a_client_alone_builds_the_c_library(
    client_alone: str, tmp_path: Path, service: Addresses
) -> None:
    run(program(client_alone), "abi", "build", "abi", "--flag=-O0", cwd=tmp_path)
    (text,) = blocks("docs/how-to/cpp-programs.md", "cpp")
    (tmp_path / "program.cpp").write_text(text)
    commands = ". abi/env.sh && g++ program.cpp -o program -lopapi -lascendcl && ./program"
    printed = run("sh", "-c", commands, cwd=tmp_path, settings={"OPSERVE_ADDRESS": service.rest})
    assert [float.fromhex(value) > 0 for value in printed.split()] == [True, True]


def test_the_extra_conform_reads_folders_of_onnx(built: dict[str, Path], tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "onnx" / "conv",
        "Conv",
        {"X": IMAGE, "W": TAPS},
        IMAGE[:, :, :2, :2],
        {"group": 2},
    )
    python = environment(tmp_path, f"{built['wheel']}[conform]", *PINNED)
    cases = ("conform", "cases", "--suite", f"onnx:{folder.parent}")
    listed = run(program(python), *cases, cwd=tmp_path)
    assert len(listed.splitlines()) == 1


def test_the_extra_demo_brings_the_digits(built: dict[str, Path], tmp_path: Path) -> None:
    python = environment(tmp_path, f"{built['wheel']}[demo]", *PINNED)
    count = "from opserve_client.demo import load_digits; print(len(load_digits()[1].digits))"
    assert int(run(python, "-c", count, cwd=tmp_path)) > 100


def test_the_plugin_of_pytest_judges_a_case(
    built: dict[str, Path], tmp_path: Path, service: Addresses
) -> None:
    python = environment(tmp_path, f"{built['wheel']}", "pytest", *PINNED)
    chosen = (
        f"--opserve-server={service.grpc}",
        "--opserve-suite=smoke",
        f"--opserve-match={CASE}",
    )
    printed = run(python, "-m", "pytest", *chosen, cwd=tmp_path)
    assert "1 passed" in printed


def test_the_install_line_of_the_templates_installs_the_wheel(
    built: dict[str, Path], tmp_path: Path
) -> None:
    texts = [path.read_text() for path in CI.iterdir()]
    (line,) = {found for text in texts for found in re.findall(r"(?m)(pip install .*)$", text)}
    project = tmp_path / "project"
    (project / "wheels").mkdir(parents=True)
    shutil.copy(built["wheel"], project / "wheels")
    python = environment(tmp_path, "pip")
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    run("bash", "-c", f"PATH={shlex.quote(path)} {line} --quiet", cwd=project)
    run(python, "-c", "import opserve_server.app", cwd=project)


def environment(folder: Path, *requirements: str) -> str:
    """The Python of a new environment that holds these."""
    made = folder / "environment"
    run("uv", "venv", "--quiet", "--python", sys.executable, f"{made}", cwd=folder)
    python = f"{made / 'bin/python'}"
    run("uv", "pip", "install", "--quiet", "--python", python, *requirements, cwd=folder)
    return python


def program(python: str) -> str:
    """The command line of an environment."""
    return f"{Path(python).with_name('opserve')}"


def run(
    command: str, *arguments: str, cwd: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> str:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [command, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=kept | {"PATH": scripts, **settings},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
