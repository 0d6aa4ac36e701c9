"""A browser for the report's tests."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from benchmarks.browser import browser
from client.conform.browser import opened


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def open_report(chromium: Browser, tmp_path: Path) -> Callable[..., AbstractContextManager[Page]]:
    return partial(opened, chromium, folder=tmp_path)
