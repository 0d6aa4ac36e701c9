"""The client installed alone by pip: seconds of its import, size and number of packages."""

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import seconds_of
from benchmarks.rounds import Pair

IMPORT = "process that imports opserve_client, s | numpy"
SIZE = "installed client, MB | its numpy"
PACKAGES = "packages of an installed client | numpy alone"
REPOSITORY = Path(__file__).resolve().parents[1]


class ClientAlone:
    """An environment that has the client and what it needs, as constraints.txt pins it.

    Args:
        folder: Where the environment is made.
    """

    def __init__(self, folder: Path) -> None:
        environment = folder / "environment"
        self._python = f"{environment / 'bin/python'}"
        run("hatchling", "build", "-t", "wheel", "-d", f"{folder}", cwd=REPOSITORY)
        (wheel,) = folder.glob("*.whl")
        run("venv", "--without-pip", f"{environment}", cwd=folder)
        pinned = ("--constraint", f"{REPOSITORY / 'constraints.txt'}")
        run("pip", "--python", self._python, "install", *pinned, f"{wheel}", cwd=folder)
        (self._packages,) = environment.glob("lib/python*/site-packages")

    def measure(self) -> Mapping[str, Pair]:
        parts = [size_mb(self._packages / name) for name in ("numpy", "numpy.libs")]
        count = len(list(self._packages.glob("*.dist-info")))
        return {
            IMPORT: Pair(
                subject=self._import_s("opserve_client"), yardstick=self._import_s("numpy")
            ),
            SIZE: Pair(subject=size_mb(self._packages), yardstick=sum(parts)),
            PACKAGES: Pair(subject=count, yardstick=1),
        }

    def _import_s(self, module: str) -> float:
        command = [self._python, "-c", f"import {module}"]
        return seconds_of(lambda: subprocess.run(command, check=True))


@contextmanager
def client_alone() -> Generator[ClientAlone]:
    """The environment, until the block ends."""
    with TemporaryDirectory(prefix="opserve-client-") as folder:
        yield ClientAlone(Path(folder))


def run(module: str, *arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, check=True, cwd=cwd, capture_output=True)


def size_mb(folder: Path) -> float:
    """Bytes of all files below, bytecode included."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
