"""Tests of what no installation brings: left out where it is absent, if skips fail too."""

import pytest

import previous_release
import vendor_pages

IS_THERE = {
    "vendor_pages": vendor_pages.FOLDER.is_dir,
    "previous_release": previous_release.is_there,
}
"""By the mark of the tests."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark, is_there in IS_THERE.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        if marked and not is_there():
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in set(marked)]
