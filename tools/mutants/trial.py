"""One mutant in a copy of the repository: the tests of its line fail, or it survives."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shutil import rmtree

from tools.mutants.drawing import Mutant
from tools.mutants.mutations import mutated

_ROOTS = ("protos", "kernels", "server", "client")


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "killed: time limit"
    SURVIVED = "survived"
    UNCLEAR = "survived: its tests fail or take long without it too"
    NOT_RUN = "not run: no time left"


@dataclass(frozen=True, slots=True)
class Copy:
    """A work tree of the repository in a temporary folder, and where its loops are compiled to."""

    folder: Path
    loops: Path

    def try_mutant(self, mutant: Mutant, tests: list[str], *, limit_s: float) -> Outcome:
        """Runs tests with the mutant; what fails must pass without it, and sooner than this limit.

        The source has its time again afterwards, else its loops would be compiled anew.
        """
        path = self.folder / mutant.path
        before = path.stat()
        source = path.read_text()
        arguments = self.folder.with_suffix(".tests")
        arguments.write_text("\n".join(tests))
        rmtree(self._failed, ignore_errors=True)
        path.write_text(mutated(source, mutant.mutation))
        try:
            status = self._pytest(f"@{arguments}", limit_s=limit_s)
        finally:
            path.write_text(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        match status:
            case None:
                without = self._pytest(f"@{arguments}", limit_s=limit_s / 3)
                return Outcome.TIMED_OUT if without == 0 else Outcome.UNCLEAR
            case 0:
                return Outcome.SURVIVED
            case _:
                without = self._pytest("--last-failed", f"@{arguments}", limit_s=limit_s)
                return Outcome.KILLED if without == 0 else Outcome.UNCLEAR

    @property
    def _failed(self) -> Path:
        return self.folder.with_suffix(".failed")

    def _pytest(self, *arguments: str, limit_s: float) -> int | None:
        """The exit status, or None after the time limit, which ends all processes of the run."""
        roots = os.pathsep.join(f"{self.folder / root}" for root in _ROOTS)
        settings = ["-p", "no:randomly", "-x", "-q", "-o", f"cache_dir={self._failed}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *settings, *arguments],
            cwd=self.folder,
            env=os.environ
            | {"PYTHONPATH": roots, "NUMBA_CACHE_DIR": f"{self.loops}"}
            | {"PYTHONDONTWRITEBYTECODE": "1"},  # a mutant's bytecode could have the source's time
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


@contextmanager
def copies(folder: Path, count: int, *, loops: Path) -> Generator[list[Copy]]:
    """Copies of the last commit, which end with the context."""
    trees = [folder / f"copy{number}" for number in range(count)]
    try:
        for tree in trees:
            _git("worktree", "add", "--quiet", "--detach", f"{tree}", "HEAD")
        yield [Copy(tree, loops) for tree in trees]
    finally:
        for tree in trees:
            _git("worktree", "remove", "--force", f"{tree}")


def commit() -> str:
    """The last commit, which is what the work tree holds.

    Raises:
        ValueError: the work tree has changes: copies would lack them.
    """
    if _git("status", "--porcelain"):
        raise ValueError("the work tree has changes: commit them, mutants are made of the commit")
    return _git("rev-parse", "HEAD")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of a session of processes: services of a test that was killed."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _git(*arguments: str) -> str:
    run = subprocess.run(  # a fixed command, of the developer's own path
        ["git", *arguments],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout.strip()
