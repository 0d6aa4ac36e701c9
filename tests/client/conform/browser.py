"""Reports opened in a browser, with the errors that it reports."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize

from benchmarks.browser import READY
from opserve_client.conform.known import NOTHING_KNOWN, Expectations
from opserve_client.conform.record import RunRecord
from opserve_client.conform.report import write_report

WINDOW: ViewportSize = {"width": 1400, "height": 900}
TIMEOUT_MS = 300_000


@contextmanager
def opened(  # noqa: PLR0913  what a page is opened with
    chromium: Browser,
    run: RunRecord,
    folder: Path,
    *,
    baseline: RunRecord | None = None,
    expected: Expectations = NOTHING_KNOWN,
    at: str = "",
    forgiven: str = "",
) -> Generator[Page]:
    """The page of a run's report, ready; no error but forgiven ones, no request but the file's."""
    path = folder / "report.html"
    before = None if baseline is None else baseline.outcomes
    write_report(run, path, baseline=before, expected=expected)
    address = path.as_uri()
    wrong: list[str] = []
    asked: list[str] = []
    with chromium.new_page(viewport=WINDOW, color_scheme="light") as page:
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", partial(_note_error, wrong, forgiven))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.goto(address + at)
        page.wait_for_selector(READY)
        yield page
    assert not wrong, wrong
    assert set(asked) == {address}


def _note_error(wrong: list[str], forgiven: str, message: ConsoleMessage) -> None:
    is_forgiven = forgiven and forgiven in message.text
    if message.type == "error" and not is_forgiven:
        wrong.append(message.text)
