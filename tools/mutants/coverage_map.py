"""The tests that execute each line and pass, with their durations, from one run of pytest."""

import ast
import json
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest
from coverage.numbits import num_in_numbits, numbits_to_nums

DURATIONS = "durations.json"
_DATA = "coverage"
_PHASES = ("|setup", "|run", "|teardown")
_SETTINGS = """[run]
source_pkgs = opserve, opserve_server, opserve_client, opserve_kernels, opserve_pytest
omit = *_pb2*, */_sync/*
patch = subprocess, fork, _exit
data_file = {data}
"""


@dataclass(frozen=True, slots=True)
class CoverageMap:
    """A recorded run: contexts of lines in SQLite, durations of tests in seconds."""

    data: sqlite3.Connection
    durations: dict[str, float]

    def lines(self, path: Path) -> set[int]:
        """The lines of a file that a test executes, in its process or in one that it started."""
        return {line for _, bits in self._contexts(path) for line in numbits_to_nums(bits)}

    def tests(self, path: Path, line: int, *, limit_s: float) -> list[str]:
        """Tests that execute a line, as many as take limit_s together, at least one.

        Half of that time goes to the likeliest files, whose paths have most words in common with
        the mutated file's. Then all files take turns, likelier ones first. In each file its
        functions take turns, each with its quickest case first. A line outside all functions runs
        under whichever test imports it first; all tests of its root may show it: tests/kernels for
        kernels/.
        """
        if _is_in_function(path, line):
            candidates = self._all_tests(path, line)
        else:
            root = f"tests/{path.parts[0]}/"
            candidates = {one for one in self.durations if one.startswith(root)}
            candidates = candidates or set(self.durations)  # no tests/protos
        files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for test in sorted(candidates, key=lambda one: (self.durations[one], one)):
            files[test.partition("::")[0]][test.partition("[")[0]].append(test)
        words = _words(f"{path}")
        likeness = {name: len(words & _words(name)) for name in files}
        order = sorted(files, key=lambda name: (-likeness[name], name))
        rows = {name: _in_turns(files[name].values()) for name in order}
        best = max(likeness.values())
        likeliest = [row for name, row in rows.items() if likeness[name] == best]
        chosen = dict.fromkeys(self._within(limit_s / 2, _in_turns(likeliest)))
        others = [test for test in _in_turns(rows.values()) if test not in chosen]
        left_s = limit_s - sum(self.durations[test] for test in chosen)
        found = [*chosen, *self._within(left_s, others)]
        return found or [min(candidates, key=lambda one: (self.durations[one], one))]

    def _within(self, limit_s: float, tests: Iterable[str]) -> list[str]:
        """The first of the tests that take this time together; slow ones come last."""
        found: list[str] = []
        for test in sorted(tests, key=lambda one: self.durations[one] > limit_s / 10):
            if self.durations[test] <= limit_s:
                found.append(test)
                limit_s -= self.durations[test]
        return found

    def _all_tests(self, path: Path, line: int) -> set[str]:
        """Lines of a fixture or another process may belong to any test of its file."""
        tests: set[str] = set()
        for context, bits in self._contexts(path):
            if num_in_numbits(line, bits):
                name = context.removesuffix("|run")
                file = name.partition("::")[0]
                of_file = name == context
                tests |= (
                    {one for one in self.durations if one.startswith(f"{file}::")}
                    if of_file
                    else {name}
                )
        return tests & self.durations.keys()

    def _contexts(self, path: Path) -> list[tuple[str, bytes]]:
        return self.data.execute(
            "select context.context, numbits from line_bits join context on context.id = context_id"
            " join file on file.id = file_id where file.path = ? and context.context != ''",
            (f"{path.resolve()}",),
        ).fetchall()


def load(folder: Path) -> CoverageMap:
    """The map that was recorded in a folder."""
    durations = json.loads((folder / DURATIONS).read_text())
    return CoverageMap(sqlite3.connect(folder / _DATA), durations)


def record(folder: Path, arguments: list[str]) -> None:
    """Runs pytest with these arguments, with the tests as coverage's contexts.

    Tests that fail without any mutant are left out: a mutant would seem killed by them.

    Raises:
        subprocess.CalledProcessError: pytest itself fails.
    """
    folder.mkdir(parents=True)
    settings = folder / "settings.ini"
    settings.write_text(_SETTINGS.format(data=folder / _DATA))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutants.recording"]
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    run = subprocess.run(
        [*command, *options, f"--mutants-map={folder}", *arguments], check=False, timeout=3600
    )
    if run.returncode != pytest.ExitCode.TESTS_FAILED:
        run.check_returncode()


def _is_in_function(path: Path, line: int) -> bool:
    return any(
        node.lineno < line <= (node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _in_turns(rows: Iterable[list[str]]) -> list[str]:
    """The first of each row, then the second of each, and so on."""
    return [one for column in zip_longest(*rows) for one in column if one is not None]


def _words(path: str) -> set[str]:
    return set(path.replace("/", "_").replace(".", "_").split("_"))
