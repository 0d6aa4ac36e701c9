"""A Triton server with one model, from the wheel nvidia-pytriton."""

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_MODEL = """
name: "identity"
backend: "python"
max_batch_size: 0
input [{ name: "INPUT", data_type: TYPE_FP32, dims: [ -1 ] }]
output [{ name: "OUTPUT", data_type: TYPE_FP32, dims: [ -1 ] }]
instance_group [{ count: 1, kind: KIND_CPU }]
"""
_CODE = Path(__file__).parent / "identity_model.py"
_POLL_S, _START_S = 0.01, 60.0
_READY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Triton:
    """A running server.

    Attributes:
        grpc: Address of its gRPC port.
        http: URL of its HTTP port.
        process: Number of its process.
        ready_s: Seconds from its start until it was ready.
    """

    grpc: str
    http: str
    process: int
    ready_s: float


@contextmanager
def triton(python: Path) -> Generator[Triton]:
    """Runs a server until the block ends.

    Args:
        python: Interpreter of the environment that has the wheel.
    """
    with TemporaryDirectory(prefix="opserve-triton-") as name:
        folder = Path(name)
        _write_model(folder / "models")
        server = _link_server(python, folder / "backends")
        grpc_port, http_port = _free_port(), _free_port()
        words = {
            "model-repository": folder / "models",
            "backend-directory": folder / "backends",
            "grpc-address": "127.0.0.1",
            "grpc-port": grpc_port,
            "http-address": "127.0.0.1",
            "http-port": http_port,
            "allow-metrics": "false",
            "log-info": "false",
        }
        command = [f"{server}", *(f"--{word}={value}" for word, value in words.items())]
        # The backend starts the Python that it finds first.
        environment = os.environ | {"PATH": f"{python.absolute().parent}:{os.environ['PATH']}"}
        log = (folder / "log").open("w+")
        begin_s = time.perf_counter()
        with log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process:
            try:
                _wait_until_ready(process, http_port, folder / "log")
                yield Triton(
                    grpc=f"127.0.0.1:{grpc_port}",
                    http=f"http://127.0.0.1:{http_port}",
                    process=process.pid,
                    ready_s=time.perf_counter() - begin_s,
                )
            finally:
                process.terminate()


def _write_model(repository: Path) -> None:
    version = repository / "identity" / "1"
    version.mkdir(parents=True)
    shutil.copy(_CODE, version / "model.py")
    (version.parent / "config.pbtxt").write_text(_MODEL)


def _link_server(python: Path, backends: Path) -> Path:
    """Makes the folder of the Python backend with the stub for this Python; returns the server."""
    environment = python.absolute().parent.parent
    (wheel,) = environment.glob("lib/python*/site-packages/pytriton/tritonserver")
    of_python = wheel.parents[2].name.removeprefix("python")
    backend = backends / "python"
    backend.mkdir(parents=True)
    stub = wheel / "python_backend_stubs" / of_python / "triton_python_backend_stub"
    for file in (*(wheel / "backends/python").iterdir(), stub):
        (backend / file.name).symlink_to(file)
    return wheel / "bin/tritonserver"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until_s = time.monotonic() + _START_S
    while not _is_ready(port):
        if process.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"Triton did not start:\n{log.read_text()}")
        time.sleep(_POLL_S)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == _READY
    except OSError:
        return False
    finally:
        connection.close()
