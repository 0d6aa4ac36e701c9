"""The vendors' pages. Their licence allows no copy here, so their tests run only beside them."""

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("OPSERVE_SEEDS", Path(__file__).parents[1].resolve().parent / "shared" / "seeds")
)
MARK = "vendor_pages"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FOLDER.is_dir():
        return
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker(MARK)]
