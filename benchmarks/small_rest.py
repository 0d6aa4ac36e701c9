"""Small REST calls beside a bare Starlette echo, which this module is when it runs by itself."""

import http.client
import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.measure import percentile, seconds_each
from benchmarks.rounds import Pair

REST_P50 = "REST stream query p50, ms | bare Starlette echo"
CALLS = 400
PATH = "/v1/sessions/{session}/streams/0"
ANSWER = b'{"complete":true}'


def main() -> None:
    """Serves on a free loopback port, which it prints, until it is ended."""

    async def echo(_: Request) -> Response:
        return Response(ANSWER, media_type="application/json")

    async def serve() -> None:
        server = uvicorn.Server(config)
        listener = config.bind_socket()
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])

    app = Starlette(routes=[Route(PATH, echo)])
    config = uvicorn.Config(
        app, port=0, http="httptools", lifespan="off", log_config=None, access_log=False
    )
    uvloop.run(serve())


@contextmanager
def echo_connection() -> Generator[http.client.HTTPConnection]:
    """Runs an echo until the block ends."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()))
        finally:
            process.terminate()


class SmallCalls:
    """A query of a stream, over one connection a round.

    Args:
        ours: A connection to the service.
        echo: A connection to the echo.
    """

    def __init__(self, ours: http.client.HTTPConnection, echo: http.client.HTTPConnection) -> None:
        self._ours = ours
        self._echo = echo
        ours.request(
            "POST", "/v1/sessions", b'{"lease_s": 600}', {"Content-Type": "application/json"}
        )
        session = json.loads(ours.getresponse().read())["session"]
        self._path = PATH.format(session=session)

    def measure(self) -> Mapping[str, Pair]:
        for connection in (self._echo, self._ours):
            connection.close()  # the servers close what stays idle for seconds
        theirs = seconds_each(lambda: self._get(self._echo), times=CALLS)
        ours = seconds_each(lambda: self._get(self._ours), times=CALLS)
        pair = Pair(subject=percentile(ours, 50) * 1e3, yardstick=percentile(theirs, 50) * 1e3)
        return {REST_P50: pair}

    def _get(self, connection: http.client.HTTPConnection) -> None:
        connection.request("GET", self._path)
        assert connection.getresponse().read() == ANSWER


if __name__ == "__main__":
    main()
