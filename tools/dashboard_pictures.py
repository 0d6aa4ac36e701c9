"""make dashboard-pictures: draws the dashboard of a test farm, for docs/pictures."""

import io
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect

from benchmarks.browser import browser
from benchmarks.farm import BASELINE, Farm, farm, history, traffic
from opserve.v1.conformance_service_pb2 import Run

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WINDOWS: Mapping[str, ViewportSize] = {
    "wide": {"width": 1280, "height": 880},
    "narrow": {"width": 390, "height": 844},
}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_COLOURS = 128
_TIMEOUT_MS = 60_000
_LIVE = "header .badge.good:has-text('Live')"
_HISTORY_S = 12
"""Seconds of work before the first picture, for the charts."""


def main() -> None:
    """Writes the pictures."""
    with farm() as made, browser() as chromium:
        made.kill_worker()
        _, failed = history(made)
        with traffic(made) as session:
            with opened(chromium, made, "vision", "wide", "light") as page:
                page.wait_for_timeout(1000 * _HISTORY_S)
            draw(chromium, made, failed, session.name[:8], PICTURES)


def draw(chromium: Browser, made: Farm, run: Run, session: str, folder: Path) -> None:
    """Writes a picture of every page, for each window and colour scheme."""
    for scheme, window, tenant in product(SCHEMES, WINDOWS, ("vision", "admin")):
        with opened(chromium, made, tenant, window, scheme) as page:
            for name, (viewer, at, prepare) in pages(run, session).items():
                if viewer == tenant:
                    page.goto(f"{made.addresses.rest}/dashboard/#/{at}")
                    page.evaluate("scrollTo(0, 0)")
                    prepare(page)
                    save(page.screenshot(), folder / f"dashboard_{name}_{window}_{scheme}.png")


def save(screenshot: bytes, path: Path) -> None:
    """Writes a screenshot with few colours, a third of its size."""
    with Image.open(io.BytesIO(screenshot)) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


Prepare = Callable[[Page], object]


def pages(run: Run, session: str) -> Mapping[str, tuple[str, str, Prepare]]:
    """Tenant, address and last steps of each picture by its name."""
    return {
        "devices": ("vision", "devices", _charts),
        "queue": ("vision", "queue", lambda page: page.wait_for_selector("tbody tr")),
        "runs": ("vision", f"runs/{run.id}", _compared),
        "case": ("vision", f"runs/{run.id}", _failed_case),
        "operators": ("vision", "operators/im2col_backward", _ran),
        "rejected": ("vision", "operators/im2col_backward/rejected", _rejected),
        "sessions": ("vision", f"sessions/{session}", _charts),
        "tenants": ("admin", "tenants", _listed),
        "service": ("admin", "service", _charts),
    }


@contextmanager
def opened(
    chromium: Browser,
    made: Farm,
    tenant: str,
    window: str,
    scheme: Literal["light", "dark"],
) -> Generator[Page]:
    """A page of the dashboard with the key of a tenant."""
    with chromium.new_context(viewport=WINDOWS[window], color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(_TIMEOUT_MS)
        page.add_init_script(f"sessionStorage.setItem('opserve.key', '{made.keys[tenant]}')")
        page.goto(f"{made.addresses.rest}/dashboard/")
        page.wait_for_selector(_LIVE)
        yield page


def _charts(page: Page) -> None:
    page.wait_for_selector("canvas")
    page.wait_for_timeout(1500)  # the series come once a second


def _listed(page: Page) -> None:
    for table in ("Device time by day", "Audit"):
        page.wait_for_selector(f"[aria-label='{table}'] tbody tr")


def _compared(page: Page) -> None:
    page.get_by_label("Baseline").select_option(BASELINE)
    page.wait_for_selector("[aria-label='Changes'] tbody tr")
    page.get_by_text("Compared with a baseline").scroll_into_view_if_needed()


def _failed_case(page: Page) -> None:
    """Opens the first case with heat maps."""
    case = page.locator("section[aria-label^='Case ']")
    links = page.locator("[aria-label='Cases by run'] tbody tr", has_text="FAILED").locator("a")
    links.first.wait_for()
    for place in range(links.count()):
        links.nth(place).click()
        page.wait_for_timeout(1000)
        if case.locator("canvas").count():
            break
    case.evaluate("one => one.scrollIntoView()")


def _run(page: Page, *, stride: str = "") -> None:
    """Runs the call of the form, on the device that no session has for itself."""
    expect(page.get_by_label("stride: integers")).not_to_have_value("", timeout=_TIMEOUT_MS)
    page.get_by_label("profile").select_option("ascend910")
    if stride:
        page.get_by_label("stride: integers").fill(stride)
    page.click("button:text-is('Run on ascend910')")


def _ran(page: Page) -> None:
    _run(page)
    page.wait_for_selector("output.reading")
    page.locator("section", has_text="Outputs").last.evaluate("one => one.scrollIntoView()")


def _rejected(page: Page) -> None:
    _run(page, stride="0, 1")
    page.wait_for_selector(".rule")
    page.locator("section", has_text="Rejected").evaluate("one => one.scrollIntoView()")


if __name__ == "__main__":
    main()
