"""The dashboard opened in a browser, with the errors and requests that it makes."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect

PAGES = ("devices", "queue", "runs", "operators", "sessions", "tenants", "service")
WIDE: ViewportSize = {"width": 1400, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LIVE = "header .badge.good:has-text('Live')"
TIMEOUT_MS = 120_000
"""Ends a test that hangs; a machine with other work is slow."""
expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def dashboard(  # noqa: PLR0913  # what a page is opened with
    chromium: Browser,
    address: str,
    *,
    at: str = "devices",
    key: str = "",
    window: ViewportSize = WIDE,
    scheme: Literal["light", "dark"] = "light",
    forgiven: str = "",
) -> Generator[Page]:
    """A page of the dashboard; nothing is in its console, and it asks no other host.

    Args:
        chromium: The browser.
        address: Address of the service.
        at: Its page.
        key: API key; empty: none.
        window: Size of the window.
        scheme: Colour scheme.
        forgiven: Part of console messages that the test causes on purpose.
    """
    said, asked = list[str](), list[str]()
    with chromium.new_context(viewport=window, color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", partial(_note, said, forgiven))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        if key:
            page.add_init_script(f"sessionStorage.setItem('opserve.key', {json.dumps(key)})")
        page.goto(f"{address}/dashboard/#/{at}")
        if not forgiven:
            page.wait_for_selector(LIVE)
        yield page
    assert said == []
    assert [url for url in asked if not url.startswith((address, f"blob:{address}"))] == []


def _note(said: list[str], forgiven: str, message: ConsoleMessage) -> None:
    if not (forgiven and forgiven in message.text):
        said.append(message.text)


def show(page: Page, name: str) -> None:
    """Goes to another page by its link."""
    page.click(f"nav a[href='#/{name}']")
    page.wait_for_selector(f"nav a[href='#/{name}'][aria-current=page]")
