"""Small REST calls beside a bare Starlette echo, which this module runs as a program."""

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
REST_PLAN_P50 = "REST GetWorkspaceSize p50, ms | bare Starlette echo that reads the body"
CALLS = 400
SESSION = "/v1/sessions/{session}"
PATH = f"{SESSION}/streams/0"
ANSWER = b'{"complete":true}'
PLAN_PATH = f"{SESSION}/operators/aclnnIm2colBackward:getWorkspaceSize"
PLAN = {
    "arguments": {
        "grad_output": {"shape": [1, 9, 36], "dtype": "FLOAT"},
        "input_size": [8, 8],
        "kernel_size": [3, 3],
        "dilation": [1, 1],
        "padding": [0, 0],
        "stride": [1, 1],
        "out": {"shape": [1, 1, 8, 8], "dtype": "FLOAT"},
    }
}
"""A plan without a workspace, whose executor is destroyed between rounds."""
JSON = {"Content-Type": "application/json"}


def main() -> None:
    """Serves on a free loopback port, which it prints, until the process ends."""

    async def echo(_: Request) -> Response:
        return Response(ANSWER, media_type="application/json")

    async def echo_plan(request: Request) -> Response:
        await request.body()
        return Response(b'{"workspace_size":0,"executor":1}', media_type="application/json")

    async def serve() -> None:
        server = uvicorn.Server(config)
        listener = config.bind_socket()
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])

    app = Starlette(routes=[Route(PATH, echo), Route(PLAN_PATH, echo_plan, methods=["POST"])])
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
    """A query of a stream and a plan, over one connection per round.

    Args:
        ours: Connection to the service.
        echo: Connection to the echo.
    """

    def __init__(self, ours: http.client.HTTPConnection, echo: http.client.HTTPConnection) -> None:
        self._ours = ours
        self._echo = echo
        ours.request("POST", "/v1/sessions", b'{"lease_s": 600}', JSON)
        self._session = json.loads(ours.getresponse().read())["session"]
        self._path = PATH.format(session=self._session)
        self._plan_path = PLAN_PATH.format(session=self._session)
        self._plan = json.dumps(PLAN).encode()

    def measure(self) -> Mapping[str, Pair]:
        for connection in (self._echo, self._ours):
            connection.close()  # the servers close connections that are idle for seconds
        theirs = seconds_each(lambda: self._get(self._echo), times=CALLS)
        ours = seconds_each(lambda: self._get(self._ours), times=CALLS)
        planned: list[int] = []
        read = seconds_each(lambda: self._post(self._echo), times=CALLS)
        plans = seconds_each(lambda: planned.append(self._post(self._ours)), times=CALLS)
        for executor in planned:
            path = f"{SESSION.format(session=self._session)}/executors/{executor}"
            self._ours.request("DELETE", path)
            self._ours.getresponse().read()
        return {
            REST_P50: Pair(
                subject=percentile(ours, 50) * 1e3, yardstick=percentile(theirs, 50) * 1e3
            ),
            REST_PLAN_P50: Pair(
                subject=percentile(plans, 50) * 1e3, yardstick=percentile(read, 50) * 1e3
            ),
        }

    def _get(self, connection: http.client.HTTPConnection) -> None:
        connection.request("GET", self._path)
        assert connection.getresponse().read() == ANSWER

    def _post(self, connection: http.client.HTTPConnection) -> int:
        connection.request("POST", self._plan_path, self._plan, JSON)
        executor: int = json.loads(connection.getresponse().read())["executor"]
        return executor


if __name__ == "__main__":
    main()
