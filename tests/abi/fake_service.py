"""A service of the test's own: it answers the calls that a test needs, and no other."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

from opserve.v1.operator_service_pb2 import GetWorkspaceSizeResponse
from opserve.v1.session_service_pb2 import OpenSessionResponse

LEASE_S = 0.3
_OPENED = OpenSessionResponse(session="0" * 32, lease_s=LEASE_S)
_PLANNED = GetWorkspaceSizeResponse(executor=1)
_ANSWERS = {
    "ListDevices": b"",
    "OpenSession": _OPENED.SerializeToString(),
    "KeepAlive": b"",
    "GetWorkspaceSize": _PLANNED.SerializeToString(),
}


class FakeService:
    """Opens sessions and plans calls.

    Attributes:
        address: Its HTTP address.
        kept_alive: Counts up to the third KeepAlive.
        released: Set at the end; until then unknown calls wait.
    """

    def __init__(self) -> None:
        self.kept_alive = threading.Semaphore(0)
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the service; its connections break."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                method = self.path.rpartition("/")[2]
                answer = _ANSWERS.get(method)
                if method == "KeepAlive":
                    service.kept_alive.release()
                if answer is None or service.released.is_set():
                    service.released.wait()
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Length", f"{len(answer)}")
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_message(self, format: str, *args: object) -> None:
                del format, args

        return Handler


@contextmanager
def fake_service() -> Generator[FakeService]:
    """Serves inside the block."""
    service = FakeService()
    try:
        yield service
    finally:
        service.stop()
