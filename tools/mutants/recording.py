"""A plugin of pytest: records durations, and makes tests the contexts of processes they start."""

import json
import os
from collections import defaultdict
from multiprocessing import forkserver
from pathlib import Path

import pytest
from coverage import Coverage

from tools.mutants.coverage_map import DURATIONS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the folder of the coverage map."""
    parser.addoption("--mutants-map", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Records durations where all results arrive: not in a worker of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        folder: object = config.getoption("--mutants-map")
        assert isinstance(folder, Path)
        config.pluginmanager.register(_Durations(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Passes the test to processes that it starts: coverage reads its settings in this variable.

    The fork server keeps the variable that it was started with, so it ends with each file of tests.
    """
    coverage = Coverage.current()
    assert coverage is not None
    before = coverage.get_option("run:context")
    if f"{before}".partition("::")[0] != item.nodeid.partition("::")[0]:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]  # noqa: SLF001
    coverage.set_option("run:context", item.nodeid)
    os.environ["COVERAGE_PROCESS_CONFIG"] = coverage.config.serialize()


class _Durations:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the duration of set-up, call or tear-down."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes the durations of tests that passed."""
        passed = {name: s for name, s in self._seconds.items() if name not in self._failed}
        (self._folder / DURATIONS).write_text(json.dumps(passed))
