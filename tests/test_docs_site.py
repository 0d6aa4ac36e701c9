"""The site of `make docs` in a browser: pictures and search work without a network."""

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from benchmarks.browser import browser

SITE = Path(__file__).resolve().parents[1] / "build" / "site"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site is built (make docs)"),
]


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def requests(page: Page) -> list[str]:
    """Addresses that the page requests."""
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    return addresses


@pytest.fixture
def page(chromium: Browser) -> Generator[Page]:
    with chromium.new_page() as opened:
        yield opened


def is_foreign(address: str) -> bool:
    return not address.startswith(("file:", "data:"))


def test_the_first_page_leads_to_every_kind_without_a_network(
    page: Page, requests: list[str]
) -> None:
    page.goto((SITE / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    captions = page.locator(".sidebar-tree .caption-text").all_text_contents()
    assert captions == [
        *(
            "Start",
            "简体中文",
            "Tutorials",
            "How-to guides",
            "Reference",
            "Explanation",
            "The project",
        )
    ]
    assert requests
    assert not any(map(is_foreign, requests))


def test_diagrams_are_pictures(page: Page, requests: list[str]) -> None:
    page.goto((SITE / "ARCHITECTURE.html").as_uri())
    sizes = page.locator("article svg[aria-roledescription]").evaluate_all(
        "pictures => pictures.map(one => one.getBoundingClientRect().height)"
    )
    assert len(sizes) == 3
    assert min(sizes) > 100
    assert not any(map(is_foreign, requests))


def test_the_search_needs_no_network(page: Page, requests: list[str]) -> None:
    page.goto((SITE / "search.html").as_uri() + "?q=winograd")
    page.wait_for_selector("#search-results li")
    assert "Error bounds" in page.locator("#search-results li a").all_text_contents()
    assert not any(map(is_foreign, requests))
