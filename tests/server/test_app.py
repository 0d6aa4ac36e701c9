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
from opserve_kernels.profiles import PROFILES
from opserve_server import app, serving
from opserve_server.pool.device import Device
from opserve_server.serving import StartFailed

FREE_PORTS = {"OPSERVE_GRPC_ADDRESS": "127.0.0.1:0", "OPSERVE_REST_ADDRESS": "127.0.0.1:0"}
NO_STORE = {"OPSERVE_STORE_URL": "", "OPSERVE_NO_KEYS": "true"}
SMALL = {"OPSERVE_DEVICE_MEMORY_BYTES": str(2**24), "OPSERVE_SLAB_BYTES": str(2**20)}
pytestmark = pytest.mark.system


@asynccontextmanager
async def started(**settings: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "opserve_server",
        env=os.environ | FREE_PORTS | NO_STORE | SMALL | settings,
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
        assert list(announced) == ["event", "grpc", "rest", "keys"]
        assert (announced["event"], announced["keys"]) == ("ready", False)

        async with grpc.aio.insecure_channel(announced["grpc"]) as channel:
            listed = await SessionServiceStub(channel).ListDevices(ListDevicesRequest())
            names = [device.name for device in listed.devices]
            assert names == [f"{profile}-0" for profile in PROFILES]
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
        async with httpx2.AsyncClient(base_url=announced["rest"], timeout=300) as client:
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


@pytest.mark.parametrize("face", ["grpc", "rest"])
async def test_a_taken_address_is_told_before_a_worker_starts(face: str) -> None:
    name = f"OPSERVE_{face.upper()}_ADDRESS"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, told = await refused(**{name: address, "OPSERVE_LOG_LEVEL": "WARNING"})
    assert status == 1
    assert told == (
        f"opserve: {face}_address: {address} is in use; "
        f"choose another with {name} or --{face}-address\n"
    )


def test_an_address_of_another_machine_is_told_in_one_line() -> None:
    address = "192.0.2.1:1"  # a documentation address: no machine has it
    with pytest.raises(StartFailed, match=rf"^grpc_address: {address} cannot be bound: .*") as told:
        serving._listen("grpc_address", address)
    assert "\n" not in str(told.value)


def test_a_worker_that_is_not_ready_in_time_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def start(_: Device) -> None:
        raise TimeoutError("planted")

    monkeypatch.setattr(Device, "start", start)

    def log_nothing(_: str) -> None:
        """The log is this process's, which other tests share."""

    monkeypatch.setattr(app, "log_to_stderr", log_nothing)
    for name, value in (FREE_PORTS | NO_STORE).items():
        monkeypatch.setenv(name, value)
    assert app.main() == 1
    told = capsys.readouterr().err
    assert told.startswith("opserve: devices: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "OPSERVE_DEVICES",
            '["ascend3000"]',
            (
                f"devices: given ascend3000, allowed the profiles {', '.join(PROFILES)}; "
                "set by OPSERVE_DEVICES or --device"
            ),
        ),
        (
            "OPSERVE_GRPC_ADDRESS",
            "50051",
            (
                "grpc_address: given 50051, allowed host:port, the port 0 to 65535; "
                "set by OPSERVE_GRPC_ADDRESS or --grpc-address"
            ),
        ),
    ],
)
async def test_a_setting_out_of_bounds_is_told_in_one_line(
    name: str, value: str, told: str
) -> None:
    assert await refused(**{name: value}) == (2, f"opserve: {told}\n")


async def refused(**settings: str) -> tuple[int | None, str]:
    """Exit status and words of a service that does not start."""
    async with started(**settings) as process:
        output, told = await process.communicate()
    assert output == b""
    return process.returncode, told.decode()


async def test_a_service_says_that_it_starts_and_once_that_it_is_ready() -> None:
    async with started() as process:
        await ready(process)
        process.send_signal(signal.SIGTERM)
        output, log = await process.communicate()
    assert output == b""
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert messages[0].startswith("starting: ")
    assert [message for message in messages if "ready" in message] == []


@pytest.mark.parametrize("face", ["grpc", "rest"])
async def test_a_service_without_keys_stays_on_this_machine(face: str) -> None:
    address = {f"OPSERVE_{face.upper()}_ADDRESS": "0.0.0.0:0", "OPSERVE_LOG_LEVEL": "WARNING"}
    status, told = await refused(**address, OPSERVE_ALLOW_PLAINTEXT="true")
    assert status == 1
    assert told.startswith(f"opserve: {face}_address: given 0.0.0.0:0, ")
    assert "opserve bootstrap" in told
    assert told.count("\n") == 1


async def test_a_service_without_keys_says_so() -> None:
    async with started() as process:
        assert (await ready(process))["keys"] is False
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert [message for message in messages if message.startswith("no key is required")] != []


def test_the_front_never_imports_numba() -> None:
    program = """
import asyncio, sys
from opserve_server import app, serving, __main__
from opserve_server.core.service import Service
from opserve_server.settings import Settings

async def build():
    settings = Settings()
    service = Service(app.new_devices(settings), limits=app.core_limits(settings))
    guesses, calls = app.guess_limits(settings), app.call_limits(settings)
    guard = app.Guard(app.Accounts(), guesses=guesses, calls=calls)
    administration = app.Administration(service, None)
    async with app._conformance(service, None, settings) as judges:
        serving.new_rest_app(service, guard, administration, judges, app.Metrics(), settings)

asyncio.run(build())
assert "numba" not in sys.modules, "the front imports numba"
assert "llvmlite" not in sys.modules, "the front imports llvmlite"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_memory_of_streamed_chunks_is_used_again() -> None:
    program = """
import resource
from opserve_server.allocator import keep_freed_memory

def pages_of_copies():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        chunk = bytes(2**20)
        copies = [bytearray(chunk) for _ in range(3)]
        del chunk, copies
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
pages_of_copies()
found = pages_of_copies()
assert found < 100, f"{found} new pages for chunks whose memory was there"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


ALL_OF_THE_FRONT = """
import asyncio, gc
from opserve_server import app

def at_once():
    told = asyncio.Event()
    told.set()
    return told

app._stopping_on_signals = at_once
assert app.main() == 0
"""
ALL_OF_A_WORKER = """
import gc
from importlib import import_module
from opserve_kernels.registry import kernels_of
from opserve_server.pool.process import preload

for module in preload(kernels_of("ascend910b").values()):
    import_module(module)
"""


@pytest.mark.parametrize("process", [ALL_OF_THE_FRONT, ALL_OF_A_WORKER])
def test_a_collection_looks_at_nothing_that_was_loaded(process: str) -> None:
    program = f"""{process}
seen, spared = len(gc.get_objects()), gc.get_freeze_count()
assert seen < spared / 10, f"{{seen}} objects are looked at, {{spared}} are spared"
"""
    environment = os.environ | FREE_PORTS | NO_STORE | SMALL
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=environment)


def test_the_front_loads_its_modules_without_collections() -> None:
    program = """
import gc
found = []
gc.callbacks.append(lambda phase, _: found.append(phase))
from opserve_server.__main__ import main
assert main() == 2, "the setting is refused once all is loaded"
assert gc.isenabled()
assert len(found) < 20, f"{len(found)} beginnings and ends of collections"
"""
    environment = os.environ | {"OPSERVE_SESSIONS_LIMIT": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=environment)


def test_a_worker_that_imports_main_again_loads_no_face() -> None:
    program = """
import sys
import opserve_server.__main__
assert not {"grpc", "fastapi", "starlette", "uvicorn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_clock_of_the_service_tells_less_than_a_millisecond() -> None:
    loop = app._Loop()
    try:
        times = {loop.time() for _ in range(1000)}
        assert len(times) > 500
        assert max(times) - min(times) < 0.5
    finally:
        loop.close()
