"""A plugin of pytest: runs those of the collected tests that a file names, one in each line."""

from collections import Counter
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the file of test names."""
    parser.addoption("--mutants-tests", type=Path, required=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the others.

    A mutant may rename the cases of a parametrized test, which is no failure: as many cases of that
    test run as names are missing.
    """
    path: object = config.getoption("--mutants-tests")
    assert isinstance(path, Path)
    chosen = set(path.read_text().split("\n"))
    missing = Counter(map(_function, chosen - {item.nodeid for item in items}))
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_chosen = item.nodeid in chosen
        if not is_chosen and missing[_function(item.nodeid)] > 0:
            missing[_function(item.nodeid)] -= 1
            is_chosen = True
        (kept if is_chosen else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


def _function(name: str) -> str:
    return name.partition("[")[0]
