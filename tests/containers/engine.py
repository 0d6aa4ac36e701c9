"""A container engine for the tests: dockerd on a separate socket, compose, and a base image."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGE = "python:3.11-slim"
PROGRAMS = ("dockerd", "docker", "debootstrap", "iptables")
START_S = 60
TRUST = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""Files of this machine that say whom pip trusts; a container has them too."""


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass(frozen=True)
class Engine:
    """Runs docker and compose against the engine of the tests."""

    compose: Path
    environment: dict[str, str] = field(repr=False)

    def docker(self, *arguments: str) -> str:
        return _output(["docker", *arguments], self.environment)

    def project(self, folder: Path, *files: str) -> "Project":
        named = [part for file in files for part in ("--file", file)]
        return Project(self, folder, [str(self.compose), *named])


@dataclass(frozen=True)
class Project:
    """Compose files in a folder."""

    engine: Engine
    folder: Path
    command: list[str]

    def run(self, *arguments: str) -> str:
        return _output([*self.command, *arguments], self.engine.environment, self.folder)

    def container(self, service: str) -> str:
        return self.run("ps", "--all", "--quiet", service).strip()

    def state(self, service: str, form: str) -> str:
        return self.engine.docker("inspect", "--format", form, self.container(service)).strip()


@contextmanager
def engine() -> Generator[Engine]:
    """Starts the engine and makes the base image; everything is removed at the end."""
    with TemporaryDirectory(prefix="opc-") as name, ExitStack() as stack:
        folder = Path(name)  # short, as the path of a socket has at most 107 bytes
        socket = f"unix://{folder}/docker.sock"
        stack.enter_context(_daemon(folder, socket))
        running = Engine(_compose(folder), os.environ | {"DOCKER_HOST": socket})
        _make_base_image(running, folder / "base")
        yield running


@contextmanager
def _daemon(folder: Path, socket: str) -> Generator[None]:
    log = folder / "log"
    places = [f"--{name}={folder / name}" for name in ("data-root", "exec-root", "pidfile")]
    with (
        log.open("wb") as written,
        subprocess.Popen(["dockerd", "--host", socket, *places], stderr=written) as process,
    ):
        try:
            _wait_for(socket, process, log)
            yield
        finally:
            process.terminate()


def _wait_for(socket: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ready = ["curl", "--silent", "--fail", "--retry-all-errors", "--retry-connrefused"]
    limit = ["--retry", str(START_S), "--retry-delay", "1", "--retry-max-time", str(START_S)]
    path = socket.removeprefix("unix://")
    done = subprocess.run(
        [*ready, *limit, "--unix-socket", path, "http://engine/_ping"], check=False
    )
    assert done.returncode == 0, f"{process.poll()}: {log.read_text()}"


def _compose(folder: Path) -> Path:
    """Compose 2: this machine's plugin, or Debian 13's, which runs on Debian 12 too."""
    for place in (Path.home() / ".docker", Path("/usr/libexec/docker"), Path("/usr/lib/docker")):
        plugin = place / "cli-plugins/docker-compose"
        if plugin.exists():
            return plugin
    packages, unpacked = folder / "packages", folder / "compose"
    wanted = ["--variant=minbase", "--include=docker-compose", "--download-only", "trixie"]
    _output(["debootstrap", *wanted, str(packages)], os.environ.copy())
    (package,) = packages.glob("var/cache/apt/archives/docker-compose_*.deb")
    _output(["dpkg-deb", "--extract", str(package), str(unpacked)], os.environ.copy())
    return unpacked / "usr/libexec/docker/cli-plugins/docker-compose"


def _make_base_image(running: Engine, root: Path) -> None:
    """Imports Debian 12 with its Python 3.11 under the name of the official image."""
    packages = "--include=python3,python3-pip,ca-certificates"
    _output(["debootstrap", "--variant=minbase", packages, "bookworm", str(root)], {**os.environ})
    (root / "usr/bin/python").symlink_to("python3")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()  # as in the official image, pip installs for all
    for file in TRUST:
        if Path(file).exists():
            shutil.copyfile(file, root / file.removeprefix("/"))
    archive = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    with archive:
        subprocess.run(
            ["docker", "import", "-", IMAGE],
            stdin=archive.stdout,
            env=running.environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    shutil.rmtree(root)


def _output(command: list[str], environment: dict[str, str], folder: Path = REPOSITORY) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
