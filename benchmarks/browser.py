"""The system's headless Chromium, driven by playwright."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for found in map(shutil.which, PROGRAMS) if found), None)
READY = "html[data-ready]"
"""Selector of a report that is ready for use."""


@contextmanager
def browser() -> Generator[Browser]:
    """Starts a browser until the block ends.

    Raises:
        RuntimeError: There is no Chromium.
    """
    if PROGRAM is None:
        raise RuntimeError(f"none of {', '.join(PROGRAMS)} is installed")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PROGRAM)
        try:
            yield chromium
        finally:
            chromium.close()
