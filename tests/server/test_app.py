"""The service as a process: it announces itself, drains, and keeps the front light."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx2
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from opserve.v1.session_service_pb2 import ListDevicesRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub

FREE_PORTS = {"OPSERVE_GRPC_ADDRESS": "127.0.0.1:0", "OPSERVE_REST_ADDRESS": "127.0.0.1:0"}
SMALL = {"OPSERVE_DEVICE_MEMORY_BYTES": str(2**24), "OPSERVE_SLAB_BYTES": str(2**20)}
pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


@asynccontextmanager
async def started(**settings: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "opserve_server",
        env=os.environ | FREE_PORTS | SMALL | settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    announced: dict[str, Any] = json.loads(await process.stdout.readline())
    return announced


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_announces_itself_serves_and_drains(number: signal.Signals) -> None:
    async with started() as process:
        announced = await ready(process)
        assert list(announced) == ["event", "grpc", "rest"]
        assert announced["event"] == "ready"

        async with grpc.aio.insecure_channel(announced["grpc"]) as channel:
            listed = await SessionServiceStub(channel).ListDevices(ListDevicesRequest())
            assert [device.name for device in listed.devices] == ["ascend910b-0"]
            stub: Any = HealthStub(channel)  # without types
            health: Any = await stub.Check(HealthCheckRequest())
            assert health.status == HealthCheckResponse.SERVING
        async with httpx2.AsyncClient(base_url=announced["rest"]) as client:
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/v1/devices")).json()["devices"][0]["ready"]

        process.send_signal(number)
        output, log = await process.communicate()
        assert process.returncode == 0, log.decode()
        assert output == b""
        lines = [json.loads(line) for line in log.splitlines()]
        assert {"time", "level", "logger", "message"} <= lines[0].keys()
        assert [line for line in lines if line["level"] not in {"INFO", "WARNING"}] == []


async def test_a_draining_service_finishes_the_calls_it_has_taken() -> None:
    async with started() as process:
        announced = await ready(process)
        async with httpx2.AsyncClient(base_url=announced["rest"], timeout=60) as client:
            session = (await client.post("/v1/sessions")).json()["session"]
            buffers = f"/v1/sessions/{session}/buffers"
            await client.post(buffers, json={"size_bytes": 2})
            middle = asyncio.Event()

            async def halves() -> AsyncIterator[bytes]:
                yield b"a"
                process.send_signal(signal.SIGTERM)
                await middle.wait()
                yield b"b"

            sent = asyncio.create_task(
                client.put(
                    f"{buffers}/1/content", content=halves(), headers={"Content-Length": "2"}
                )
            )
            assert process.stderr is not None
            while b"drains" not in await process.stderr.readline():
                pass
            middle.set()
            response = await sent
            assert response.json() == {"size_bytes": 2}
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("face", ["OPSERVE_GRPC_ADDRESS", "OPSERVE_REST_ADDRESS"])
async def test_a_taken_address_is_told_before_a_worker_starts(face: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with started(**{face: address}) as process:
            output, log = await process.communicate()
    assert process.returncode == 1
    assert output == b""
    assert b"could not start" in log


async def test_a_service_without_keys_stays_on_this_machine() -> None:
    async with started(OPSERVE_REST_ADDRESS="0.0.0.0:0") as process:
        output, log = await process.communicate()
    assert process.returncode == 2
    assert output == b""
    assert b"OPSERVE_ALLOW_REMOTE" in log


def test_the_front_never_imports_numba() -> None:
    program = """
import asyncio, sys
from opserve_server import app, __main__
from opserve_server.core.service import Service
from opserve_server.settings import Settings

async def build():
    settings = Settings()
    service = Service(app.new_devices(settings), limits=app.core_limits(settings))
    app._new_rest_app(service, settings, asyncio.Event())

asyncio.run(build())
assert "numba" not in sys.modules, "the front imports numba"
assert "llvmlite" not in sys.modules, "the front imports llvmlite"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_worker_that_imports_main_again_loads_no_face() -> None:
    program = """
import sys
import opserve_server.__main__
assert not {"grpc", "fastapi", "uvicorn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
