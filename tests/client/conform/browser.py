"""A headless Chromium that opens reports, and complains of whatever it did not like."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from opserve_client.conform.record import RunRecord
from opserve_client.conform.report import write_report

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for found in map(shutil.which, PROGRAMS) if found), None)


@contextmanager
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PROGRAM)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def opened(
    chromium: Browser,
    run: RunRecord,
    folder: Path,
    *,
    baseline: RunRecord | None = None,
    at: str = "",
    forgiven: str = "",
    **context: Any,
) -> Generator[Page]:
    """The page of a run's report, ready; no error but forgiven ones, no request but the file's."""
    path = folder / "report.html"
    write_report(run, path, baseline=baseline)
    address = path.as_uri()
    wrong: list[str] = []
    asked: list[str] = []
    with chromium.new_context(**{"viewport": {"width": 1400, "height": 900}, **context}) as made:
        page = made.new_page()
        page.set_default_timeout(10_000)
        page.on("console", partial(_note_error, wrong, forgiven))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.goto(address + at)
        page.wait_for_selector("html[data-ready]")
        yield page
    assert not wrong, wrong
    assert set(asked) == {address}


def _note_error(wrong: list[str], forgiven: str, message: ConsoleMessage) -> None:
    is_forgiven = forgiven and forgiven in message.text
    if message.type == "error" and not is_forgiven:
        wrong.append(message.text)
