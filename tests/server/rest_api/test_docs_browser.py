"""The page at /docs in a browser that reaches nothing but the service."""

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import uvicorn
from playwright.sync_api import Browser

from benchmarks.browser import browser
from server.rest_api.conftest import Api

pytestmark = pytest.mark.slow


@contextmanager
def served() -> Generator[str]:
    """The address of the service, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(Api().app(), lifespan="off", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        serving = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        serving.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            serving.join()


@pytest.fixture
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


def test_the_page_shows_every_operation_and_sends_no_foreign_request(chromium: Browser) -> None:
    asked, failed = list[str](), list[str]()
    with served() as address:
        page = chromium.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(f"{address}/docs")
        page.wait_for_selector(".opblock")
        assert len(page.query_selector_all(".opblock-tag-section")) == 11
        assert len(page.query_selector_all(".opblock")) >= 96
    assert all(url.startswith((address, "data:")) for url in asked)
    assert failed == []
