"""make bench-dashboard: the pages with many sessions, and small calls beside open pages."""

import argparse
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import Process, Semaphore
from multiprocessing.synchronize import Semaphore as SemaphoreType

import httpx2
import numpy as np
from playwright.sync_api import Browser, Page

from benchmarks.browser import browser
from benchmarks.farm import CALL, Farm, farm
from benchmarks.report import Goal, show_goals
from opserve_client import Client, Session

SESSIONS, PAGES, ROUNDS, CALLS = 1000, 10, 14, 4000
SERIES_S = 5.0
"""Seconds between two readings of the series by a page."""
FRAMES_S = 20
"""Seconds for which frames are measured."""
FIRST_ROW = "[aria-label=Sessions] tbody tr"
DIED = ".card.bad, .card dt:text-is('Worker restarts') + dd:text-is('1')"
FRAMES = """seconds => new Promise((resolve) => {
    let last = performance.now(), worst = 0;
    const end = last + 1000 * seconds;
    const step = (now) => {
        worst = Math.max(worst, now - last);
        last = now;
        if (now < end) requestAnimationFrame(step); else resolve(worst);
    };
    requestAnimationFrame(step);
})"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_LIMIT = str(SESSIONS + 24)
_TIMEOUT_MS = 60_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of small calls")
    rounds = parser.parse_args().rounds
    limits = {"sessions_limit": _LIMIT, "device_sessions_limit": _LIMIT}
    with farm(**limits) as made:
        ratio = calls_beside_pages(made, rounds)
        with browser() as chromium:
            card_s = change_s(chromium, made)
            painted_ms, rows_s, frame_ms = many_sessions(chromium, made)
    rows = (
        (f"first paint with {SESSIONS} sessions, ms", painted_ms, 1000.0),
        (f"rows of {SESSIONS} sessions, s", rows_s, 1.0),
        (f"longest frame in {FRAMES_S} s, ms", frame_ms, 100.0),
        (f"p99 of small calls beside {PAGES} pages / none", ratio, 1.1),
        ("a card after a worker's death, s", card_s, 2.0),
    )
    show_goals(
        [Goal(goal=text, value=value, target=most, better="lower") for text, value, most in rows]
    )


def many_sessions(chromium: Browser, made: Farm) -> tuple[float, float, float]:
    """Milliseconds to the first paint, seconds to the first row, and the longest frame in ms."""
    with made.client("robotics") as client, ExitStack() as stack:
        for _ in range(SESSIONS):
            stack.enter_context(client.open_session("ascend910b"))
        with opened(chromium, made, "robotics") as page:
            begun_s = time.perf_counter()
            page.goto(f"{made.addresses.rest}/dashboard/#/sessions")
            page.wait_for_selector(FIRST_ROW)
            rows_s = time.perf_counter() - begun_s
            return page.evaluate(PAINTED), rows_s, page.evaluate(FRAMES, FRAMES_S)


def change_s(chromium: Browser, made: Farm) -> float:
    """Seconds from the death of a worker until its card shows it or its replacement."""
    with opened(chromium, made, "vision") as page:
        page.goto(f"{made.addresses.rest}/dashboard/#/devices")
        page.wait_for_selector("article.card")
        before = page.locator(".cards").inner_text()
        assert "Not ready" not in before
        begun_s = time.perf_counter()
        made.kill_worker()
        page.wait_for_selector(DIED)
        return time.perf_counter() - begun_s


def calls_beside_pages(made: Farm, rounds: int) -> float:
    """The p99 of small calls beside pages, by that without pages.

    Both are of the calls of all rounds, which alternate, as a host's own noise is greater.
    """
    alone_s: list[float] = []
    beside_s: list[float] = []
    with (
        Client(made.addresses.grpc, api_key=made.keys["vision"]) as client,
        client.open_session("ascend910b") as session,
    ):
        session.run(CALL)
        for _ in range(rounds):
            alone_s += small_calls_s(session)
            with open_pages(made):
                beside_s += small_calls_s(session)
    return float(np.percentile(beside_s, 99) / np.percentile(alone_s, 99))


def small_calls_s(session: Session) -> list[float]:
    """Durations of small calls, seconds."""
    times_s: list[float] = []
    for _ in range(CALLS):
        begun_s = time.perf_counter()
        session.default_stream.query()
        times_s.append(time.perf_counter() - begun_s)
    return times_s


@contextmanager
def open_pages(made: Farm) -> Generator[None]:
    """The calls of open pages from another process, without the drawing of a browser."""
    read = Semaphore(0)
    process = Process(target=_read_pages, args=(made.addresses.rest, made.keys["vision"], read))
    process.start()
    for _ in range(PAGES):
        assert read.acquire(timeout=_TIMEOUT_MS / 1000), "a page reads nothing"
    yield
    process.terminate()
    process.join()


def _read_pages(rest: str, key: str, read: SemaphoreType) -> None:
    with ThreadPoolExecutor(PAGES) as threads:
        for _ in range(PAGES):
            threads.submit(_read_page, rest, key, read)


def _read_page(rest: str, key: str, read: SemaphoreType) -> None:
    """Reads a watch, and the series of the first page, as often as it does; notes each reading."""
    headers = {"Authorization": f"Bearer {key}"}
    query = {"name": "device_busy_share,device_calls_per_s", "last_s": "600"}
    with (
        httpx2.Client(base_url=rest, headers=headers, timeout=30) as client,
        client.stream("GET", "/v1/watch") as watching,
    ):
        read_s = -SERIES_S
        for _ in watching.iter_raw():  # an event comes each second, as the device works
            if time.monotonic() - read_s >= SERIES_S:
                read_s = time.monotonic()
                client.get("/v1/series", params=query)
                read.release()


@contextmanager
def opened(chromium: Browser, made: Farm, tenant: str) -> Generator[Page]:
    """An empty page with the key of a tenant."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(_TIMEOUT_MS)
        page.add_init_script(f"sessionStorage.setItem('opserve.key', '{made.keys[tenant]}')")
        yield page


if __name__ == "__main__":
    main()
