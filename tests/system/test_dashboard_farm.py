"""The dashboard of a farm with keys: what each caller sees, and what it can do."""

import re
import tarfile
from collections.abc import Generator
from typing import Literal

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.browser import PROGRAM, browser
from benchmarks.farm import BASELINE, DEVICES, Farm, farm, history, traffic
from opserve.v1.conformance_service_pb2 import Run
from skips import needs_program
from system.dashboard import NARROW, PAGES, SCHEMES, dashboard, show
from system.npm import NODE, NPM, run

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    needs_program("Chromium", there=PROGRAM is not None, package="chromium-headless-shell"),
]
OTHERS = ("speech", "robotics")
AXE = "axe-core@4.14.1"
"""MPL-2.0; a program of these tests alone."""


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def busy() -> Generator[tuple[Farm, tuple[Run, Run]]]:
    """A farm with runs, sessions and waiting requests."""
    with farm() as made:
        runs = history(made)
        with traffic(made):
            yield made, runs


def seen(page: Page) -> str:
    return page.inner_text("body")


def test_the_card_of_a_killed_worker_changes_after_its_death(chromium: Browser) -> None:
    with farm() as made, dashboard(chromium, made.addresses.rest, key=made.keys["vision"]) as page:
        restarts = page.locator("article.card dt:text-is('Worker restarts') + dd")
        expect(restarts).to_have_text(["0", "0"])
        made.kill_worker()
        expect(restarts.filter(has_text="1")).to_have_count(1)
        assert sorted(restarts.all_inner_texts()) == ["0", "1"]
        expect(page.locator(".card .badge.good:text-is('Ready')")).to_have_count(len(DEVICES))


def test_a_tenant_sees_no_word_of_another(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, _ = busy
    headers = {"Authorization": f"Bearer {made.keys['admin']}"}
    sessions = httpx2.get(f"{made.addresses.rest}/v1/admin/sessions", headers=headers).json()
    foreign = {one["id"] for one in sessions["sessions"] if one["tenant"] in OTHERS}
    assert foreign
    with dashboard(chromium, made.addresses.rest, key=made.keys["vision"]) as page:
        for name in PAGES:
            show(page, name)
            page.wait_for_selector("main section")
            words = set(re.findall(r"[\w-]+", seen(page)))
            assert not words & {*OTHERS, *foreign}, name
    with dashboard(chromium, made.addresses.rest, at="sessions", key=made.keys["admin"]) as page:
        for tenant in OTHERS:
            expect(page.locator("[aria-label=Sessions] td", has_text=tenant).first).to_be_visible()


def test_a_failed_run_shows_its_cases_beside_the_earlier_run_and_a_baseline(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, (passed, failed) = busy
    with dashboard(
        chromium, made.addresses.rest, at=f"runs/{failed.id}", key=made.keys["vision"]
    ) as page:
        titles = page.locator("[aria-label='Cases by run'] thead th")
        expect(titles.last).to_have_text("Reason")
        headings = titles.all_inner_texts()
        assert [text[:6] for text in headings[1:-1]] == [failed.id[:6], passed.id[:6]]
        failures = next(one.cases for one in failed.counts if one.status == "FAILED")
        rows = page.locator("[aria-label='Cases by run'] tbody tr")
        expect(rows.locator("td:nth-child(2) .FAILED")).to_have_count(failures)
        page.get_by_label("Baseline").select_option(BASELINE)
        changes = page.locator("[aria-label=Changes] tbody tr", has_text="New failure")
        expect(changes.first).to_be_visible()
        assert changes.count() >= failures
        case = rows.filter(has_text="im2col_backward").locator("a").first
        name = case.inner_text()
        case.click()
        view = page.locator(f"section[aria-label='Case {name}']")
        expect(view.locator("canvas").first).to_be_visible()
        expect(view).to_contain_text("FAILED")


def test_a_run_at_work_can_be_cancelled(chromium: Browser) -> None:
    with (
        farm() as made,  # without an exclusive session, which the run would have to wait for
        made.client("vision") as client,
        dashboard(chromium, made.addresses.rest, at="runs", key=made.keys["vision"]) as page,
    ):
        begun = client.conformance.run_suite("standard", target="long")
        row = page.locator("[aria-label=Runs] tbody tr", has_text=begun.id)
        row.locator("button:text-is('Cancel')").click()
        row.locator("button:text-is('Cancel the run?')").click()
        expect(row).to_contain_text("CANCELLED")
        assert client.conformance.get_run(begun.id).state == "CANCELLED"


def test_an_administrator_sees_who_uses_how_much(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, _ = busy
    with dashboard(chromium, made.addresses.rest, at="tenants", key=made.keys["admin"]) as page:
        rows = page.locator("[aria-label='Use by tenant'] tbody tr")
        for tenant in ("vision", *OTHERS):
            expect(rows.filter(has_text=tenant).locator("td").nth(3)).to_have_text(
                re.compile("^[12]")
            )
            page.click(f"summary:text-is('All resources of {tenant}')")
            expect(page.locator(f"[aria-label='Use of {tenant}']")).to_be_visible()
        days = page.locator("[aria-label='Device time by day'] tbody tr")
        expect(days.filter(has_text="81,000")).to_contain_text("90 min")
        audit = page.locator("[aria-label=Audit] tbody tr")
        expect(audit.filter(has_text="GetActivity").first).to_contain_text("admin")
    with dashboard(chromium, made.addresses.rest, at="queue", key=made.keys["admin"]) as page:
        expect(page.locator("tbody tr", has_text="robotics")).to_have_count(1)
        expect(page.locator("button:text-is('Cancel')")).to_have_count(0)
    with dashboard(chromium, made.addresses.rest, at="tenants", key=made.keys["speech"]) as page:
        expect(page.locator("main")).to_contain_text("Only administrators see other tenants")


def test_the_service_shows_its_calls_and_changed_settings(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, _ = busy
    with dashboard(chromium, made.addresses.rest, at="service", key=made.keys["vision"]) as page:
        row = page.locator("[aria-label='Calls by method'] tbody tr", has_text="OpenSession").first
        expect(row.locator("td").nth(2)).to_have_text(re.compile(r"^[1-9]"))
        settings = page.locator("[aria-label='Changed settings']")
        expect(settings).to_contain_text("OPSERVE_DEVICES")
        expect(settings).to_contain_text("its value, which may contain a password")
        expect(page.locator("button:text-is('Drain the service')")).to_have_count(0)


def test_an_administrator_drains_the_service(chromium: Browser) -> None:
    with farm() as made:
        # The end of the service breaks the connection of the page.
        with dashboard(
            chromium, made.addresses.rest, at="service", key=made.keys["admin"], forgiven="ERR_"
        ) as page:
            page.click("button:text-is('Drain the service')")
            page.click("button:has-text('Accept no new work')")
            page.wait_for_selector("header .badge.bad:has-text('Not connected')")
        with pytest.raises(httpx2.TransportError):
            answers_forever(f"{made.addresses.rest}/livez")


def answers_forever(address: str) -> None:
    """Calls until the service has ended."""
    while True:
        httpx2.get(address)


def test_a_key_that_is_refused_is_asked_for_again(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, _ = busy
    with dashboard(chromium, made.addresses.rest, forgiven="status of 401") as page:
        page.get_by_label("API key").fill("osk_wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        requests = list[str]()
        page.on("request", lambda request: requests.append(request.url))
        page.get_by_label("API key").fill(made.keys["speech"])
        page.keyboard.press("Enter")
        page.wait_for_selector("article.card")
        assert made.keys["speech"] not in page.url
        assert not [url for url in requests if made.keys["speech"] in url]
        page.click("button:text-is('Forget the key')")
        page.wait_for_selector("form input[name=key]")
        assert page.evaluate("sessionStorage.length") == 0


def test_the_pages_are_used_by_keys_alone(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]]
) -> None:
    made, _ = busy
    with dashboard(chromium, made.addresses.rest, key=made.keys["vision"]) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        page.keyboard.press("Shift+Tab")
        for name in reversed(PAGES):
            link = page.locator(f"nav a[href='#/{name}']")
            while not link.evaluate("one => one === document.activeElement"):
                page.keyboard.press("Shift+Tab")
            page.keyboard.press("Enter")
            expect(link).to_have_attribute("aria-current", "page")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_page_is_wider_than_a_telephone(
    chromium: Browser, busy: tuple[Farm, tuple[Run, Run]], scheme: Literal["light", "dark"]
) -> None:
    made, (_, failed) = busy
    key = made.keys["admin"]
    for at in (*PAGES, f"runs/{failed.id}"):
        with dashboard(
            chromium, made.addresses.rest, at=at, key=key, window=NARROW, scheme=scheme
        ) as page:
            page.wait_for_selector("main section")
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], at


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, which finds what readers with impairments cannot use."""
    folder = tmp_path_factory.mktemp("axe")
    run(NODE, NPM, "pack", AXE, folder=folder)
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(
    chromium: Browser,
    busy: tuple[Farm, tuple[Run, Run]],
    axe: str,
    scheme: Literal["light", "dark"],
) -> None:
    made, (_, failed) = busy
    for at in (*PAGES, f"runs/{failed.id}"):
        with dashboard(
            chromium, made.addresses.rest, at=at, key=made.keys["admin"], scheme=scheme
        ) as page:
            page.wait_for_selector("main section")
            page.evaluate(axe)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            serious = [
                (one["id"], [node["html"][:120] for node in one["nodes"]])
                for one in found["violations"]
                if one["impact"] in {"serious", "critical"}
            ]
            assert serious == [], at
