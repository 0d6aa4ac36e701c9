"""The report in a real browser: filters, a failure, its heat map, keys, links, hostile texts."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, ViewportSize

from benchmarks.browser import PROGRAM
from client.conform.sample_results import (
    LAST_COLUMN,
    SAMPLE,
    failed,
    fold,
    folded,
    nothing_wrong,
    projected,
    refused,
    run,
)
from opserve_client.conform.known import Known, expectations
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.verdict import Status
from skips import needs_program

chromium = needs_program("Chromium", there=PROGRAM is not None, package="chromium-headless-shell")
pytestmark = [pytest.mark.system, chromium]

Scheme = Literal["light", "dark"]
Open = Callable[..., AbstractContextManager[Page]]
FAILED = SAMPLE.results[0]
ROWS = "#rows > div"
MAP = ".map canvas"
NARROW: ViewportSize = {"width": 390, "height": 844}
LINE_PX = 15  # of a line of text, at least
FITS = "canvas => canvas.getBoundingClientRect().right <= innerWidth - 10"
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
TIMES = "\N{MULTIPLICATION SIGN}"
HOSTILE = (
    "</script><img src=x onerror='hacked()'><script>hacked()</script> ${1} {{1}} \u2028 'q\" \\"
)


def statuses(page: Page) -> list[str]:
    return [text.split()[-1] for text in page.locator(f"{ROWS} .status").all_inner_texts()]


def pixel(page: Page, canvas: int, x: float, y: float) -> tuple[int, ...]:
    """The colour of a map at a point, in CSS pixels."""
    script = """(canvas, [x, y]) => [...canvas.getContext("2d").getImageData(
        x * devicePixelRatio, y * devicePixelRatio, 1, 1).data]"""
    found: list[int] = page.locator(MAP).nth(canvas).evaluate(script, [x, y])
    return tuple(found)


def cell_of_map(
    page: Page, canvas: int, row: int, column: int, columns: int
) -> tuple[float, float]:
    """Near a corner of a cell, beside its mark, in a map of one panel."""
    width = page.locator(MAP).nth(canvas).evaluate("canvas => canvas.clientWidth")
    side = (width - 2) / columns
    return 1 + (column + 0.5) * side, 1 + (row + 0.12) * side


def test_the_gravest_cases_are_listed_first(open_report: Open) -> None:
    with open_report(SAMPLE) as page:
        assert statuses(page) == ["FAILED", "FAILED", "SKIPPED", "PASSED"]
        assert page.inner_text("#verdict") == "2 of 4 cases failed, 1 passed"
        assert page.inner_text("#target") == "my_kernels:backward"
        assert page.inner_text("#count") == "4 of 4 cases"
        assert not page.is_visible("#expectations")


def test_cases_are_filtered_by_text_and_by_choice(open_report: Open) -> None:
    with open_report(SAMPLE) as page:
        page.fill("#text", "TOO large")
        assert statuses(page) == ["SKIPPED"]
        page.click("button[type=reset]")
        assert len(statuses(page)) == 4
        page.select_option("#operator", "convolution_backward")
        assert statuses(page) == ["FAILED"]
        assert page.inner_text("#count") == "1 of 4 cases"
        page.click("button[type=reset]")
        page.click(".tile.PASSED")
        assert statuses(page) == ["PASSED"]
        page.click("#summary .plain.SKIPPED")
        assert statuses(page) == ["SKIPPED"]


@pytest.mark.slow
def test_cases_are_sorted_by_a_column(open_report: Open) -> None:
    with open_report(SAMPLE) as page:
        page.click("[data-sort=worst]")
        assert page.locator(f"{ROWS} .worst").first.inner_text().endswith(TIMES)
        assert page.locator("[aria-sort=descending]").inner_text().startswith("Worst used")
        page.click("[data-sort=worst]")
        assert page.locator(f"{ROWS} .worst").last.inner_text().endswith(TIMES)


@pytest.mark.slow
def test_an_address_holds_filters_sort_and_case(open_report: Open) -> None:
    with open_report(SAMPLE) as page:
        page.select_option("#status", "FAILED")
        page.click("[data-sort=id]")
        page.locator(ROWS).first.click()
        page.wait_for_selector("#case h3")
        shown = page.inner_text("#case .id code"), statuses(page)
        address = page.evaluate("location.hash")
    with open_report(SAMPLE, at=address) as page:
        page.wait_for_selector("#case h3")
        assert (page.inner_text("#case .id code"), statuses(page)) == shown
        assert page.input_value("#status") == "FAILED"


@pytest.mark.slow
def test_a_failure_describes_the_defect(open_report: Open) -> None:
    with open_report(SAMPLE, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector("#case h3")
        shown = page.inner_text("#case")
        assert FAILED.verdict.reason in shown
        assert f"out: wrong only at the last w ({LAST_COLUMN} of {LAST_COLUMN + 1})" in shown
        assert "rounding" in page.inner_text("#case .output table >> nth=0")
        assert "24" in page.inner_text("#case .output :text('Used fraction') ~ .wide")
        elements = page.locator("table:has(th:text-is('Expected')) >> nth=0 >> tbody tr")
        assert elements.count() == 10
        cells = elements.first.locator("td").all_inner_texts()
        assert cells[:4] == [f"[0, 0, 0, {LAST_COLUMN}]", "1", "1", "2"]


@pytest.mark.slow
def test_the_heat_map_differs_where_the_values_do(open_report: Open) -> None:
    with open_report(SAMPLE, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector(MAP)
        positions = page.locator(".map", has_text="Positions").locator("canvas")
        place = 1
        assert positions.evaluate(
            "canvas => canvas === document.querySelectorAll('.map canvas')[1]"
        )
        columns = LAST_COLUMN + 1
        at = partial(cell_of_map, page, place, columns=columns)
        right = {pixel(page, place, *at(row, column)) for row in range(4) for column in range(5)}
        wrong = {pixel(page, place, *at(row, LAST_COLUMN)) for row in range(4)}
        assert len(right) == len(wrong) == 1
        (blue,), (orange,) = right, wrong
        assert blue[2] > blue[0]
        assert orange[0] > orange[2] + 50


@pytest.mark.slow
def test_a_map_returns_index_and_value(open_report: Open) -> None:
    with open_report(SAMPLE, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector(MAP)
        reading = page.locator(".map output").nth(1)
        assert reading.inner_text() == "4 of 24 cells are wrong"
        x, y = cell_of_map(page, 1, 2, LAST_COLUMN, LAST_COLUMN + 1)
        page.locator(MAP).nth(1).hover(position={"x": x, "y": y})
        assert reading.inner_text().startswith(f"h 2, w {LAST_COLUMN}: ")
        assert reading.inner_text().endswith(f"{TIMES} of the tolerance, wrong")
        page.mouse.move(0, 0)
        page.locator(MAP).nth(1).focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        assert reading.inner_text() == "h 1, w 1: 0 of the tolerance"


def test_everything_works_by_keys(open_report: Open) -> None:
    with open_report(SAMPLE) as page:
        page.keyboard.press("/")
        page.keyboard.type("im2col")
        assert page.input_value("#text") == "im2col"
        page.focus("#grid")
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        assert page.get_attribute("#grid", "aria-activedescendant") == "row-1"
        page.keyboard.press("Enter")
        page.wait_for_selector("#case h3")
        assert page.locator(f"{ROWS}.open .status").inner_text().endswith("SKIPPED")
        page.keyboard.press("Escape")
        page.wait_for_selector("#case", state="hidden")
        assert page.evaluate("document.activeElement.id") == "grid"
        page.go_back()
        page.wait_for_selector("#case h3")


@pytest.mark.slow
def test_a_baseline_is_reported(open_report: Open) -> None:
    before = run(folded(nothing_wrong), folded(case=fold(4)), folded(case=fold(9)))
    with open_report(SAMPLE, baseline=before) as page:
        tiles = page.locator("#changes .tile").all_inner_texts()
        assert [tile.split("\n") for tile in tiles] == [
            ["1", "new failure"],
            ["1", "fixed"],
            ["2", "new case"],
        ]
        assert "1 of them are not in this run" in page.inner_text("#gone")
        page.click(".tile.fixed")
        assert statuses(page) == ["PASSED"]
        page.locator(ROWS).first.click()
        assert "was FAILED" in page.inner_text("#case .change")


@pytest.mark.slow
def test_known_failures_and_those_that_pass_are_reported(open_report: Open) -> None:
    known = (
        Known(pattern=FAILED.case.id, reason=HOSTILE),
        Known(pattern=SAMPLE.results[1].case.id, reason="mended"),
    )
    with open_report(SAMPLE, expected=expectations(SAMPLE, known)) as page:
        assert (
            page.inner_text("#verdict") == "2 of 4 cases failed, 1 of them known failures, 1 passed"
        )
        tiles = page.locator("#knowns .tile").all_inner_texts()
        assert [tile.split("\n") for tile in tiles] == [
            ["1", "known failure"],
            ["1", "known failure passes"],
        ]
        page.select_option("#known", "known failure passes")
        assert statuses(page) == ["PASSED"]
        assert page.locator(f"{ROWS} .reason b").all_inner_texts() == ["known failure passes"]
        page.evaluate("id => { location.hash = `case=${id}` }", FAILED.case.id)
        page.wait_for_selector(f"#case .id:has-text('{FAILED.case.id}')")
        shown = page.text_content("#case .known")
        assert shown == f"known failure: {FAILED.case.id}  # {HOSTILE}"
        assert page.locator("img").count() == 0


@pytest.mark.slow
def test_a_projection_has_a_layer_and_names_no_elements(open_report: Open) -> None:
    with open_report(run(projected()), at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector("#case h3")
        assert "projection" in page.inner_text("#case .output table >> nth=0")
        assert page.locator("#case .output table").count() == 1
        assert page.locator(MAP).count() == 0


@pytest.mark.slow
def test_wrong_outputs_are_listed_first_below_the_coverage_of_the_case(open_report: Open) -> None:
    (wrong,) = FAILED.verdict.outputs
    right = replace(wrong, name="right", status=Status.PASSED)
    case = replace(FAILED.case, tags=("two at once",))
    verdict = replace(FAILED.verdict, outputs=(right, wrong))
    record = run(replace(FAILED, case=case, verdict=verdict))
    with open_report(record, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector("#case h3")
        names = page.locator("#case .output h4").all_inner_texts()
        assert [name.split()[0] for name in names] == [wrong.name, "right"]
        assert "two at once" in page.inner_text("#case .hint >> nth=0")


def test_a_text_of_a_target_is_never_markup(open_report: Open) -> None:
    case = fold(2, source=HOSTILE)
    broken = replace(failed(Status.ERROR, HOSTILE), case=case)
    broken = replace(broken, verdict=replace(broken.verdict, case=case.id))
    output = replace(FAILED.verdict.outputs[0], name=HOSTILE, reason=HOSTILE)
    wrong = replace(FAILED, verdict=replace(FAILED.verdict, outputs=(output,), reason=HOSTILE))
    record = run(broken, wrong, target=HOSTILE)
    with open_report(record, baseline=record) as page:
        assert page.inner_text("#target") == " ".join(HOSTILE.replace("\u2028", " ").split()) or (
            page.text_content("#target") == HOSTILE
        )
        for result in (broken, wrong):
            page.evaluate("id => { location.hash = `case=${id}` }", result.case.id)
            page.wait_for_selector(f"#case .id:has-text('{result.case.id}')")
            assert page.text_content("#case .reason") == HOSTILE
            assert page.text_content(f"{ROWS}.open .reason") in {
                HOSTILE,
                f"still failing {HOSTILE}",
            }
            assert page.locator("img, iframe, object, a[href^='javascript']").count() == 0
        assert page.locator("script").count() == 3
        assert page.evaluate("typeof hacked") == "undefined"


def test_the_policy_lets_no_text_become_markup(open_report: Open) -> None:
    script = "try { document.body.innerHTML = '<b>x</b>'; 'taken' } catch (error) { error.name }"
    with open_report(SAMPLE, forgiven="TrustedHTML") as page:
        policy = page.get_attribute("meta[http-equiv=Content-Security-Policy]", "content") or ""
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy
        assert page.evaluate(script) == "TypeError"


@pytest.mark.slow
def test_the_snippet_reproduces_the_failure_alone(open_report: Open, tmp_path: Path) -> None:
    case = fold(2, source=HOSTILE + "\U0001f600")
    with open_report(run(folded(case=case)), at=f"#case={case.id}") as page:
        page.wait_for_selector("#snippet")
        snippet = page.locator("#snippet").text_content() or ""
        shown = page.inner_text("#command")
        assert shown.endswith(f"--seed 7 --target my_kernels:backward --case {case.id}")
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def fn(grad_output, **arguments):\n"
        "    return {'out': np.full((2, 2, 4, 6), 7, np.float32)}\n"
    )
    command = [sys.executable, "snippet.py", "mine:fn"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "grad_output: float32 (2, 2, 24)"
    assert lines[1] == "out: float32 (2, 2, 4, 6), expected: float32 (2, 2, 4, 6)"
    assert lines[2] == f"out[0, 0, 0, {LAST_COLUMN}]: 7.0 instead of 1"
    assert len(lines) == 12


@pytest.mark.slow
def test_only_rows_in_sight_exist(open_report: Open) -> None:
    many = run(*(folded(nothing_wrong, case=fold(1, source="")) for _ in range(1)))
    case = many.results[0].case
    copies = [replace(case, arguments={**case.arguments, "copy": place}) for place in range(3000)]
    results = [replace(many.results[0], case=copy) for copy in copies]
    with open_report(run(*results, refused())) as page:
        assert page.locator(ROWS).count() < 80
        page.focus("#grid")
        page.keyboard.press("End")
        page.wait_for_selector("#row-3000")
        assert page.locator(ROWS).count() < 80
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(ROWS).count() == 200


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_contrast_with_their_background(open_report: Open, scheme: Scheme) -> None:
    script = """() => [...document.querySelectorAll("main *, header *")].filter((element) =>
      [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
      && element.checkVisibility()).map((element) => {
        let behind = element;
        const back = () => getComputedStyle(behind).backgroundColor;
        while (back() === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        return [element.textContent, getComputedStyle(element).color, back()];
    })"""
    before = run(folded(nothing_wrong), folded(case=fold(4)))
    at = f"#case={FAILED.case.id}"
    with open_report(SAMPLE, baseline=before, at=at) as page:
        page.wait_for_selector(MAP)
        page.emulate_media(color_scheme=scheme)
        found: list[tuple[str, str, str]] = page.evaluate(script)
    assert len(found) > 100
    assert [one for one in found if contrast(one[1], one[2]) < 4.5] == []


def contrast(one: str, other: str) -> float:
    """Of two CSS colours, as WCAG 2 defines it."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_colours_are_ordered_and_distinct_for_colour_blind_readers(
    open_report: Open, scheme: Scheme
) -> None:
    script = """canvas => [...canvas.getContext("2d").getImageData(3, 4, 1, 1).data].slice(0, 3)"""
    drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
    at = f"#case={FAILED.case.id}"
    with open_report(SAMPLE, at=at) as page:
        page.wait_for_selector(".legend canvas")
        page.emulate_media(color_scheme=scheme)
        page.evaluate(drawn)  # a page hears of its scheme before it draws its next frame
        steps = page.locator(".legend canvas").all()
        colours = [step.evaluate(script) for step in steps]
    right, wrong = colours[:5], colours[5:]
    sign = 1 if scheme == "dark" else -1
    for part in (right, wrong):
        lights = [sign * luminance(f"rgb({','.join(map(str, colour))})") for colour in part]
        assert all(low < high for low, high in pairwise(lights)), json.dumps(part)
    assert min(deuteranope_distance(one, other) for one in right for other in wrong) > 20


def deuteranope_distance(one: list[int], other: list[int]) -> float:
    """The distance of two colours without the cones for green (Machado's matrix)."""
    rows = ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969))
    differences = [a - b for a, b in zip(one, other, strict=True)]
    seen = [sum(w * d for w, d in zip(row, differences, strict=True)) for row in rows]
    return math.hypot(*seen)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_narrow_window_shows_whole_maps_and_every_reason(
    open_report: Open, scheme: Scheme
) -> None:
    wide = folded(case=FoldCall(out=(2, 16, 28, 28), kernel=(1, 1)).case())
    broken = failed(Status.ERROR, "ValueError: " + "operands of other shapes, " * 12)
    record = run(wide, broken, *SAMPLE.results)
    sizes = "element => [element.scrollWidth, element.clientWidth, element.clientHeight]"
    with open_report(record, at=f"#case={wide.case.id}") as page:
        page.wait_for_selector(MAP)
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(NARROW)
        page.reload()
        page.wait_for_selector(MAP)
        for place in range(page.locator(MAP).count()):
            assert page.locator(MAP).nth(place).evaluate(FITS)
        row, last, columns = 14, 27, 28
        right, wrong = (
            pixel(page, 1, *cell_of_map(page, 1, row, column, columns)) for column in (0, last)
        )
        assert wrong[0] > wrong[2] + 20 > right[0] - right[2] + 20
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        reasons = page.locator(f"{ROWS} .reason").all()
        assert len(reasons) == len(record.results)
        for reason in reasons:
            content, width, height = reason.evaluate(sizes)
            assert content <= width > NARROW["width"] / 2
            assert height >= LINE_PX
        assert reasons[0].evaluate("element => getComputedStyle(element).overflowY") == "auto"
        page.focus("#grid")
        page.keyboard.press("End")
        visible = page.locator(f"{ROWS}.active").evaluate(
            "row => row.getBoundingClientRect().bottom <= grid.getBoundingClientRect().bottom"
        )
        assert visible


@pytest.mark.slow
def test_the_theme_can_be_chosen(open_report: Open) -> None:
    with open_report(SAMPLE, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector(MAP)
        before = pixel(page, 1, *cell_of_map(page, 1, 0, 0, LAST_COLUMN + 1))
        page.click("#theme")
        assert page.inner_text("#theme") == "Light"
        after = pixel(page, 1, *cell_of_map(page, 1, 0, 0, LAST_COLUMN + 1))
        assert sum(before[:3]) > sum(after[:3])


@pytest.mark.slow
def test_the_printed_page_is_light_and_flows(open_report: Open) -> None:
    with open_report(SAMPLE, at=f"#case={FAILED.case.id}") as page:
        page.wait_for_selector(MAP)
        light = pixel(page, 1, *cell_of_map(page, 1, 0, 0, LAST_COLUMN + 1))
        page.emulate_media(color_scheme="dark")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert pixel(page, 1, *cell_of_map(page, 1, 0, 0, LAST_COLUMN + 1)) == light
        position = "element => getComputedStyle(element).position"
        assert {page.locator(name).evaluate(position) for name in ("#head", "#rows")} == {"static"}
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert page.evaluate(wide)
