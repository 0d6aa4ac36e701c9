"""One mutant in a copy of the repository: the tests of its line fail, or it survives."""

import json
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

import pytest

from tools.mutants.drawing import Mutant
from tools.mutants.mutations import mutated

_ROOTS = ("protos", "kernels", "server", "client")
_TOOLS = Path(__file__).parents[2]
_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # its tests may vanish


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

        Tests that fail without the mutant too, or not twice with it, are left out, and the others
        run again.
        """
        while tests:
            with self._mutated(mutant):
                status = self._pytest(tests, limit_s=limit_s)
            if status is None:
                without = self._pytest(tests, limit_s=limit_s / 3)
                return Outcome.TIMED_OUT if without == 0 else Outcome.UNCLEAR
            if status in _PASSED:
                return Outcome.SURVIVED
            failed = self._failed(tests)
            with self._mutated(mutant):
                again = self._pytest(failed, limit_s=limit_s)
            if again not in _PASSED and self._pytest(failed, limit_s=limit_s) == 0:
                return Outcome.KILLED
            tests = [test for test in tests if test not in failed]
        return Outcome.UNCLEAR

    @contextmanager
    def _mutated(self, mutant: Mutant) -> Generator[None]:
        """The source has its time again afterwards, else its loops would be compiled anew."""
        path = self.folder / mutant.path
        before = path.stat()
        source = path.read_text()
        path.write_text(mutated(source, mutant.mutation))
        try:
            yield
        finally:
            path.write_text(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @property
    def _cache(self) -> Path:
        return self.folder.with_suffix(".cache")

    def _failed(self, tests: list[str]) -> list[str]:
        """Those of the tests that the last run reports as failed, or all where it reports none.

        A file that cannot be imported is reported in place of its tests.
        """
        report = self._cache / "v" / "cache" / "lastfailed"
        names: set[str] = set(json.loads(report.read_text())) if report.exists() else set()
        failed = [test for test in tests if {test, test.partition("::")[0]} & names]
        return failed or tests

    def _pytest(self, tests: list[str], *, limit_s: float) -> int | None:
        """The exit status, or None after the time limit, which ends all processes of the run.

        Whole files are collected, the likeliest first: pytest rejects a name that it does not find.
        """
        rmtree(self._cache, ignore_errors=True)
        names = self.folder.with_suffix(".tests")
        names.write_text("\n".join(tests))
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        roots = [*(self.folder / root for root in _ROOTS), _TOOLS]
        settings = ["-p", "no:randomly", "-x", "-q", "-o", f"cache_dir={self._cache}"]
        plugin = ["-p", "tools.mutants.choosing", f"--mutants-tests={names}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *settings, *plugin, *files],
            cwd=self.folder,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(map(str, roots)), "NUMBA_CACHE_DIR": f"{self.loops}"}
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
