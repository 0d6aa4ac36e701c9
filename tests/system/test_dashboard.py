"""The dashboard in a real browser: each page shows the state of the service."""

import io
import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import numpy as np
import pytest
from ml_dtypes import bfloat16
from playwright.sync_api import Browser, Page, expect

from benchmarks.browser import PROGRAM, browser
from opserve_client import Client, Im2colBackward, OpserveError, Session
from opserve_client.private_service import Addresses
from skips import needs_program
from system.dashboard import dashboard

chromium_there = needs_program(
    "Chromium", there=PROGRAM is not None, package="chromium-headless-shell"
)
pytestmark = [pytest.mark.system, chromium_there]
DEVICE, PROFILE = "ascend910-0", "ascend910"
HOSTILE = "<img src=x onerror='hacked()'>\"&{{1}}"
EDGE = 8


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


def identity(image: np.ndarray) -> Im2colBackward:
    """A fold of 1x1 blocks, which returns its columns as the image."""
    return Im2colBackward(
        grad_output=image.reshape(image.shape[0], -1),
        input_size=[EDGE, EDGE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )


def fact(page: Page, device: str, name: str) -> str:
    """A value of a device's card."""
    card = page.locator(f"article[aria-label='{device}']")
    return card.locator(f"dt:text-is('{name}') + dd").inner_text()


def open_id(service: Addresses) -> str:
    """The public id of the newest session."""
    listed = httpx2.get(f"{service.rest}/v1/sessions").json()["sessions"]
    return str(min(listed, key=lambda session: session["open_s"])["id"])


def test_a_card_of_each_device_shows_who_has_it(chromium: Browser, service: Addresses) -> None:
    with Client(service.rest) as client, dashboard(chromium, service.rest) as page:
        devices = client.list_devices()
        cards = page.locator("article.card")
        assert cards.count() == len(devices)
        assert page.locator(".card .badge.good:text-is('Ready')").count() == len(devices)
        expect(page.locator("main")).to_contain_text(f"All {len(devices)} devices are ready.")
        value = page.locator(f"article[aria-label='{DEVICE}'] dt:text-is('Sessions') + dd")
        expect(value).to_have_text("free")
        with client.open_session(PROFILE, exclusive=True) as session:
            session.run(identity(np.ones((1, EDGE, EDGE), np.float32)))
            expect(value).to_have_text("yours: 1 session, exclusive")
        expect(value).to_have_text("free")
        device = next(device for device in devices if device.name == DEVICE)
        assert fact(page, DEVICE, "Memory").endswith(f"of {device.memory_bytes >> 30} GiB used")


def test_a_waiting_request_shows_its_place_and_can_be_cancelled(
    chromium: Browser, service: Addresses
) -> None:
    with (
        Client(service.rest) as client,
        ThreadPoolExecutor(1) as threads,
        client.open_session(PROFILE, exclusive=True),
    ):
        asked = {"profile": PROFILE, "wait_s": 50.0}
        waiting = threads.submit(
            httpx2.post,
            f"{service.rest}/v1/sessions",
            json=asked,
            headers={"Idempotency-Key": HOSTILE},
            timeout=60,
        )
        with dashboard(chromium, service.rest, at="queue") as page:
            row = page.locator("tbody tr")
            expect(row).to_have_count(1)
            expect(row.locator("td").nth(0)).to_have_text("1 next")
            expect(row.locator("td").nth(1)).to_have_text(PROFILE)
            expect(row.locator("td").nth(7)).to_have_text(HOSTILE)
            row.locator("button:text-is('Cancel')").click()
            row.locator("button:text-is('Cancel the request?')").click()
            page.wait_for_selector(".empty")
        answer = waiting.result()
    assert answer.status_code == 504
    assert "was cancelled by its tenant" in answer.json()["detail"]


def test_an_operator_runs_from_its_form(chromium: Browser, service: Addresses) -> None:
    image = np.arange(EDGE * EDGE, dtype=np.float32).reshape(1, EDGE, EDGE) - 20
    with dashboard(chromium, service.rest, at="operators/im2col_backward") as page:
        fill_identity(page, " ".join(f"{value:g}" for value in image.flat))
        page.click("button:text-is('Run on ascend910b')")
        reading = page.locator("output.reading")
        expect(reading).to_have_text("64 numbers from -20 to 43; blue is positive, orange negative")
        canvas = page.locator("figure.map canvas")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            canvas.press(key)
        expect(reading).to_have_text(f"row 1, column 1: {image[0, 1, 1]:g}")
        page.click("button:text-is('Python')")
        with page.expect_download() as download:
            page.click("button:text-is('Download in.npz')")
        with np.load(download.value.path()) as written:
            arrays = dict(written)
        assert np.array_equal(arrays["grad_output"], image.reshape(1, -1))
        source = page.inner_text("#call-text").replace('np.load("in.npz")', "arrays")
        assert np.array_equal(run_text(source, arrays).out, image)


def test_a_warning_names_the_value_and_what_the_page_allows(
    chromium: Browser, service: Addresses
) -> None:
    with dashboard(chromium, service.rest, at="operators/conv_tbc") as page:
        # The first case of the suite fills the form: FLOAT, with cube_math_type 0.
        expect(page.get_by_label("cube_math_type: integer")).to_have_value("0")
        page.click("button:text-is('Run on ascend910b')")
        warning = page.locator(".live p.rule")
        expect(warning).to_contain_text(
            "ACLNN_ERR_PARAM_INVALID cube_math_type has 0 for a computation in FLOAT, and the "
            "vendor's page allows any other value for FLOAT."
        )
        expect(warning.locator("q")).to_have_text("cubeMathType 0: FLOAT 暂不支持")


def fill_identity(page: Page, numbers: str) -> None:
    """Fills the form of a fold of 1x1 blocks."""
    # Until the first case of the suite fills the form.
    expect(page.get_by_label("stride: integers")).not_to_have_value("")
    tensor = page.locator("fieldset", has_text="grad_output")
    tensor.get_by_label("fill").select_option("pasted")
    tensor.locator("textarea").fill(numbers)
    tensor.get_by_label("shape").fill(f"1, {EDGE * EDGE}")
    for name, text in {
        "input_size": f"{EDGE}, {EDGE}",
        "kernel_size": "1, 1",
        "dilation": "1, 1",
        "padding": "0, 0",
        "stride": "1, 1",
    }.items():
        page.get_by_label(f"{name}: integers").fill(text)


def run_text(source: str, arrays: object) -> Any:
    """What the text of a call prints."""
    printed = list[Any]()
    exec(source, {"arrays": arrays, "print": printed.append})  # noqa: S102  # the text of the page
    (result,) = printed
    return result


def test_a_broken_rule_is_named_with_its_code(chromium: Browser, service: Addresses) -> None:
    with dashboard(
        chromium, service.rest, at="operators/im2col_backward", forgiven="status of 400"
    ) as page:
        fill_identity(page, "0 " * EDGE * EDGE)
        page.get_by_label("stride: integers").fill("0, 1")
        page.click("button:text-is('Run on ascend910b')")
        rejected = page.locator(".live section")
        expect(rejected).to_contain_text("161002 ACLNN_ERR_PARAM_INVALID")
        expect(rejected.locator("dt:text-is('Argument') + dd")).to_have_text("stride")
        expect(rejected.locator("dt:text-is('Given') + dd")).to_contain_text("0")
        expect(rejected.locator(".rule").first).to_contain_text("stride")


def test_a_session_shows_its_timeline_and_can_be_closed(
    chromium: Browser, service: Addresses
) -> None:
    with Client(service.rest) as client, client.open_session(PROFILE) as session:
        work(session)
        trace = session.trace()
        # The page may ask once more for the timeline of the session that it closed.
        forgiven = "status of 404"
        with dashboard(chromium, service.rest, at="sessions", forgiven=forgiven) as page:
            name = open_id(service)
            page.click(f"tbody a[href='#/sessions/{name}']")
            expect(page.locator(".lanes output")).to_contain_text("entries in")
            with page.expect_download() as download:
                page.click("button:text-is('Download for Perfetto')")
            drawn = json.loads(download.value.path().read_text())
            page.click("button:text-is('Close')")
            page.locator("button:has-text('Close it')").click()
            page.wait_for_selector(".badge.warn:text-is('Ended')")
        with pytest.raises(OpserveError, match="it was released"):
            session.run(identity(np.ones((1, EDGE, EDGE), np.float32)))
    for events in (trace["traceEvents"], drawn["traceEvents"]):
        assert isinstance(events, list)
        events.pop(0)  # the name of the process
    assert drawn == trace


def work(session: Session) -> None:
    """Calls, copies, a record and a wait."""
    image = session.empty((1, EDGE, EDGE), "float32", format="ND")
    columns = session.upload(np.ones((1, EDGE * EDGE), np.float32), format="ND")
    call = replace(identity(np.ones((1, EDGE, EDGE), np.float32)), grad_output=columns, out=image)
    executor = session.get_workspace_size(call).executor
    executor.set_repeatable()
    event, other = session.create_event(), session.create_stream()
    session.default_stream.execute(executor)
    event.record(session.default_stream)
    other.wait_event(event)
    other.execute(executor)
    other.synchronize()
    image.download()


@pytest.mark.parametrize(
    ("dtype", "type_"), [("FLOAT", "f4"), ("DOUBLE", "f8"), ("FLOAT16", "f2"), ("BF16", "bf16")]
)
def test_arrays_have_the_bits_that_numpy_gives_them(
    chromium: Browser, service: Addresses, dtype: str, type_: str
) -> None:
    draw = np.random.default_rng(7)
    numbers = draw.normal(size=200) * 10.0 ** draw.integers(-9, 6, 200)
    numbers[:6] = (0.0, -0.0, 65519.0, 65520.0, 2.0**-24, 3 * 2.0**-25)
    with dashboard(chromium, service.rest) as page:
        written, read = page.evaluate(
            """async ([numbers, dtype]) => {
                const { readNpz, writeNpz } = await import("./npz.js");
                const file = writeNpz({ x: { dtype, shape: [10, 20], numbers } });
                const buffer = await file.arrayBuffer();
                return [[...new Uint8Array(buffer)], [...readNpz(buffer, { x: dtype }).x.numbers]];
            }""",
            [numbers.tolist(), dtype],
        )
    found = np.load(io.BytesIO(bytes(written)))["x"]
    with np.errstate(over="ignore"):
        expected = numbers.reshape(10, 20).astype(bfloat16 if type_ == "bf16" else type_)
    assert found.shape == (10, 20)
    assert found.tobytes() == expected.tobytes()
    assert np.array_equal(np.ravel(read), expected.astype(float).ravel())
