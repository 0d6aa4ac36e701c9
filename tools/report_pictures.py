"""make report-pictures: draws the pictures of the conformance report from a synthetic run."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import ViewportSize

from benchmarks.browser import READY, browser
from benchmarks.sample_runs import sample_run
from opserve_client.conform.record import Result, RunRecord
from opserve_client.conform.report import write_report
from opserve_kernels.verdict.verdict import Status

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WINDOW: ViewportSize = {"width": 1400, "height": 960}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIDE = 8  # cells at least
MOST = 1e4  # times the tolerance
CASES, SEED, ELEMENTS = 420, 8, 40_000


def main() -> None:
    """Writes the pictures."""
    run = sample_run(CASES, seed=SEED, elements=ELEMENTS, failing=0.15)
    before = sample_run(CASES, seed=SEED, elements=ELEMENTS, failing=0.1)
    case = _telling(run).case.id
    with TemporaryDirectory() as folder, browser() as chromium:
        path = Path(folder, "report.html")
        write_report(run, path, baseline=before.outcomes)
        for scheme in SCHEMES:
            with chromium.new_page(viewport=WINDOW, color_scheme=scheme) as page:
                page.goto(path.as_uri())
                page.wait_for_selector(READY)
                if scheme == "light":
                    page.screenshot(path=PICTURES / "conformance_report.png")
                page.evaluate("id => { location.hash = `case=${id}` }", case)
                page.wait_for_selector(".map canvas")
                page.locator("#cases-title").evaluate("title => title.scrollIntoView()")
                page.screenshot(path=PICTURES / f"conformance_case_{scheme}.png")


def _telling(run: RunRecord) -> Result:
    """Returns the failure with the clearest maps: errors of many sizes, beside correct cells."""

    def shown(result: Result) -> int:
        maps = [heat for output in result.verdict.outputs for heat in output.maps]
        mixed = [heat for heat in maps if len(heat.shape) > 1 and min(heat.shape[-2:]) >= SIDE]
        return max(
            (len({used for used in heat.values if used < MOST}) for heat in mixed), default=0
        )

    failed = [result for result in run.failures if result.verdict.status is Status.FAILED]
    return max(failed, key=shown)


if __name__ == "__main__":
    main()
