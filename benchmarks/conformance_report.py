"""The HTML report of a large run: its size, and the times to build, open and filter it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from playwright.sync_api import Browser, Page

from benchmarks.browser import READY, browser
from benchmarks.report import Goal
from benchmarks.sample_runs import sample_run
from opserve_client.conform.record import Result, RunRecord
from opserve_client.conform.report import write_report

CASES, JUDGED, ELEMENTS = 10_000, 1_000, 512
"""Cases of the run; cases that are judged, whose verdicts several share; elements of an output."""
ROUNDS = 5
_FILTERED = """async (text) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const field = document.getElementById("text");
    const began = performance.now();
    field.value = text;
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await frame();
    await frame();
    return (performance.now() - began) / 1000;
}"""


def report_goals() -> list[Goal]:
    """Returns the goals for a report of 10,000 cases, a tenth of them wrong, with a baseline."""
    run = large_run()
    with TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        began = process_time()
        write_report(run, path, baseline=run.outcomes)
        build_s = process_time() - began
        with browser() as chromium:
            opened_s = _median(lambda: _open(chromium, path))
            with _opened(chromium, path) as page:
                filtered_s = max(_filter(page, text) for text in ("float16", "3d group", "a", ""))
        size_mb = path.stat().st_size / 1e6
    rows = (
        ("size, MB", size_mb, 20),
        ("built, s of one core", build_s, 20),
        ("opened in a browser, s", opened_s, 2),
        ("filtered by a text, the slowest of four, s", filtered_s, 2),
    )
    return [
        Goal(goal=f"report of {CASES} cases: {what}", value=value, target=target, better="lower")
        for what, value, target in rows
    ]


def large_run() -> RunRecord:
    """Returns a run with different cases, several of which share a verdict."""
    run = sample_run(JUDGED, elements=ELEMENTS)
    results = [_copy(result, copy) for copy in range(CASES // JUDGED) for result in run.results]
    header = replace(run.header, cases=len(results))
    return RunRecord(header=header, results=tuple(results))


def _copy(result: Result, copy: int) -> Result:
    case = replace(result.case, arguments={**result.case.arguments, "copy": copy})
    return replace(result, case=case, verdict=replace(result.verdict, case=case.id))


def _median(measure: Callable[[], float]) -> float:
    return median(measure() for _ in range(ROUNDS))


def _opened(chromium: Browser, path: Path) -> Page:
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(READY)
    return page


def _open(chromium: Browser, path: Path) -> float:
    began = perf_counter()
    with _opened(chromium, path):
        return perf_counter() - began


def _filter(page: Page, text: str) -> float:
    return median(float(page.evaluate(_FILTERED, text)) for _ in range(ROUNDS))
