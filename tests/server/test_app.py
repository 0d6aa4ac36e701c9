"""The service as a process: it announces itself, drains, and keeps the front light."""

import asyncio
import faulthandler
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
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
from opserve_server.stop_guard import SIGNALS

FREE_PORTS = {"OPSERVE_GRPC_ADDRESS": "127.0.0.1:0", "OPSERVE_REST_ADDRESS": "127.0.0.1:0"}
NO_STORE = {"OPSERVE_STORE_URL": "", "OPSERVE_NO_KEYS": "true"}
SMALL = {"OPSERVE_DEVICE_MEMORY_BYTES": str(2**24), "OPSERVE_SLAB_BYTES": str(2**20)}
ONE_DEVICE = {"OPSERVE_DEVICES": '["ascend910b"]'}
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
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def with_variable(variable: str) -> list[str]:
    """Names of the processes that have a variable in their environment."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if variable.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


async def until_a_process(program: str, variable: str) -> None:
    """Waits until a process that a service started runs a program."""
    while not any(program in name for name in with_variable(variable)):  # noqa: ASYNC110  # others
        await asyncio.sleep(0)


async def ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    announced: dict[str, Any] = json.loads(await process.stdout.readline())
    return announced


@pytest.mark.parametrize(
    ("number", "settings", "profiles"),
    [
        (signal.SIGTERM, {}, tuple(PROFILES)),
        pytest.param(signal.SIGINT, ONE_DEVICE, ("ascend910b",), marks=pytest.mark.slow),
    ],
)
async def test_a_service_announces_itself_serves_and_drains(
    number: signal.Signals, settings: dict[str, str], profiles: tuple[str, ...]
) -> None:
    async with started(**settings) as process:
        announced = await ready(process)
        assert list(announced) == ["event", "grpc", "rest", "keys"]
        assert (announced["event"], announced["keys"]) == ("ready", False)

        async with grpc.aio.insecure_channel(announced["grpc"]) as channel:
            listed = await SessionServiceStub(channel).ListDevices(ListDevicesRequest())
            names = [device.name for device in listed.devices]
            assert names == [f"{profile}-0" for profile in profiles]
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
    _check_log([json.loads(line) for line in log.splitlines()])


def _check_log(lines: list[dict[str, Any]]) -> None:
    """It reports that the service starts without keys, and not again that it is ready."""
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert [line for line in lines if line["level"] not in {"INFO", "WARNING"}] == []
    messages = [line["message"] for line in lines]
    assert messages[0].startswith("starting: ")
    assert [message for message in messages if "ready" in message] == []
    assert [message for message in messages if message.startswith("no key is required")] != []


@pytest.mark.parametrize(
    ("phase", "number", "status"),
    [
        ("imports", signal.SIGINT, 130),
        pytest.param("imports", signal.SIGTERM, 0, marks=pytest.mark.slow),
        pytest.param("compilation", signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
async def test_a_signal_during_the_start_ends_every_process_without_a_traceback(
    phase: str, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    variable = f"STARTED_IN={tmp_path}"
    settings = ONE_DEVICE | {"STARTED_IN": str(tmp_path)}
    if phase == "compilation":
        settings["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    async with asyncio.timeout(300), started(**settings) as process:
        assert process.stderr is not None
        log = await process.stderr.readline()
        # The fork server imports the kernels before it forks a worker.
        await until_a_process("forkserver" if phase == "imports" else "spawn_main", variable)
        # A terminal sends an interrupt to every process of the group, others to one.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        output, rest = await process.communicate()
        while with_variable(variable):  # noqa: ASYNC110  # another process changes it
            await asyncio.sleep(0)
    log += rest
    assert (process.returncode, output) == (status, b""), log.decode()
    assert b"Traceback" not in log, log.decode()
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert messages[-1] == "stopped before the service was ready"


def test_an_interrupt_before_the_service_handles_it_ends_it_without_traceback() -> None:
    program = """
import os, signal, sys
from opserve_server import __main__

class Interrupts:
    def find_spec(self, name, *_):
        if name == "opserve_server.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
__main__.main()
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "")


async def test_a_draining_service_finishes_the_calls_it_has_taken() -> None:
    async with started(**ONE_DEVICE) as process:
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


Serve = Callable[..., tuple[int, str]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Serve]:
    """Serves in this process with settings; the exit status, and what stderr got."""

    def log_nothing(*_: str) -> None:
        """The log is this process's, which other tests share."""

    def run(**settings: str) -> tuple[int, str]:
        for name, value in (FREE_PORTS | NO_STORE | settings).items():
            monkeypatch.setenv(name, value)
        status = app.main()
        output, errors = capsys.readouterr()
        assert output == ""
        return status, errors

    monkeypatch.setattr(app, "log_to_stderr", log_nothing)
    switches_after_s = sys.getswitchinterval()
    yield run
    sys.setswitchinterval(switches_after_s)
    for number in SIGNALS:
        faulthandler.unregister(number)


@pytest.mark.parametrize("api", ["grpc", "rest"])
def test_an_address_in_use_is_reported_before_a_worker_starts(
    api: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Device, "start", None)
    name = f"OPSERVE_{api.upper()}_ADDRESS"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, output = serve(**{name: address})
    assert status == 1
    assert output == (
        f"opserve: {api}_address: {address} is in use; "
        f"choose another with {name} or --{api}-address\n"
    )


def test_an_address_of_another_machine_is_reported_in_one_line() -> None:
    address = "192.0.2.1:1"  # a documentation address: no machine has it
    with pytest.raises(
        StartFailed, match=rf"^grpc_address: {address} cannot be bound: .*"
    ) as raised:
        serving._listen("grpc_address", address)
    assert "\n" not in str(raised.value)


def test_a_worker_that_is_not_ready_in_time_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    async def start(_: Device) -> None:
        raise TimeoutError("planted")

    monkeypatch.setattr(Device, "start", start)
    status, output = serve()
    assert status == 1
    assert output.startswith("opserve: devices: ")
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "OPSERVE_DEVICES",
            '["ascend3000"]',
            (
                "devices does not accept ascend3000; it accepts the profiles "
                f"{', '.join(PROFILES)}; did you mean ascend310? Set it by OPSERVE_DEVICES or "
                "--device."
            ),
        ),
        (
            "OPSERVE_GRPC_ADDRESS",
            "50051",
            (
                "grpc_address does not accept 50051; it accepts host:port, the port 0 to 65535. "
                "Set it by OPSERVE_GRPC_ADDRESS or --grpc-address."
            ),
        ),
    ],
)
def test_a_setting_out_of_bounds_is_reported_in_one_line(
    name: str, value: str, message: str, serve: Serve
) -> None:
    assert serve(**{name: value}) == (2, f"opserve: {message}\n")


@pytest.mark.parametrize("api", ["grpc", "rest"])
def test_a_service_without_keys_stays_on_this_machine(api: str, serve: Serve) -> None:
    address = {f"OPSERVE_{api.upper()}_ADDRESS": "0.0.0.0:0"}
    status, output = serve(**address, OPSERVE_ALLOW_PLAINTEXT="true")
    assert status == 1
    assert output.startswith(f"opserve: {api}_address is 0.0.0.0:0, which ")
    assert "opserve bootstrap" in output
    assert output.count("\n") == 1


ALL_OF_THE_FRONT = """
import asyncio, gc, sys
from opserve_server import app

def at_once():
    signals = app.Signals(asyncio.Event())
    signals.stop.set()
    return signals

app._signals = at_once
assert app.main() == 0
assert "numba" not in sys.modules, "the front imports numba"
assert "llvmlite" not in sys.modules, "the front imports llvmlite"
assert "sqlalchemy" not in sys.modules, "a front without a store imports SQLAlchemy"
"""
ALL_OF_A_WORKER = """
import gc
from importlib import import_module
from opserve_kernels.registry import kernels_of
from opserve_server.pool.process import preload

for module in preload(kernels_of("ascend910b").values()):
    import_module(module)
"""
PAGES_OF_CHUNKS = """
import resource

def pages_of_copies():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        chunk = bytes(2**20)
        copies = [bytearray(chunk) for _ in range(3)]
        del chunk, copies
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages_of_copies()
found = pages_of_copies()
assert found < 100, f"{found} new pages for chunks whose memory was there"
"""
SWITCHES = """
assert sys.getswitchinterval() < 0.005, "threads switch as late as Python's own"
"""
LOOKED_AT = """
seen, spared = len(gc.get_objects()), gc.get_freeze_count()
assert seen < spared / 10, f"{seen} objects are looked at, {spared} are spared"
"""


def test_a_front_has_no_numba_spares_what_it_loaded_uses_memory_again_and_switches_soon() -> None:
    program = f"{ALL_OF_THE_FRONT}{LOOKED_AT}{PAGES_OF_CHUNKS}{SWITCHES}"
    environment = os.environ | FREE_PORTS | NO_STORE | SMALL | ONE_DEVICE
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=environment)


def test_a_collection_in_a_worker_looks_at_nothing_that_was_loaded() -> None:
    program = f"{ALL_OF_A_WORKER}{LOOKED_AT}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_help_of_the_module_starts_no_service() -> None:
    command = [sys.executable, "-m", "opserve_server", "--help"]
    ended = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("usage: python -m opserve_server")


def test_a_missing_package_of_the_service_is_one_sentence() -> None:
    program = """
import sys
from opserve_server.__main__ import main
sys.modules["uvloop"] = None
sys.argv[1:] = []
raise SystemExit(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=300, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "opserve: the service needs uvloop, which this environment lacks: "
        "pip install 'opserve[server]'\n"
    )


@pytest.mark.parametrize(("compiled", "printed"), [(True, "early\n"), (False, "")])
def test_compiled_kernels_are_loaded_while_the_front_imports_its_modules(
    compiled: bool, printed: str
) -> None:
    program = f"""
import sys
from multiprocessing import forkserver
from unittest import mock
from opserve_server import __main__, early_start

def ensure_running():
    print("late" if "opserve_server.app" in sys.modules else "early")

sys.argv[1:] = []
sys.modules["uvloop"] = None  # the front ends at its imports
compiled = mock.patch.object(early_start, "are_compiled", lambda _: {compiled})
with compiled, mock.patch.object(forkserver, "ensure_running", ensure_running):
    __main__.main()
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    assert ended.stdout == printed, ended.stderr


def test_the_front_loads_its_modules_without_collections_and_a_refused_setting_ends_it() -> None:
    program = """
import gc
from runpy import run_module
found = []
gc.callbacks.append(lambda phase, _: found.append(phase))
try:
    run_module("opserve_server", run_name="__main__")
finally:
    assert gc.isenabled()
    assert len(found) < 20, f"{len(found)} beginnings and ends of collections"
"""
    environment = os.environ | {"OPSERVE_SESSIONS_LIMIT": "0"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, check=False, timeout=300, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("opserve: sessions_limit does not accept 0; ")
    assert ended.stderr.count("\n") == 1


def test_a_worker_that_imports_main_again_loads_no_api() -> None:
    program = """
import sys
import opserve_server.__main__
assert not {"grpc", "fastapi", "starlette", "uvicorn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_clock_of_the_service_resolves_less_than_a_millisecond() -> None:
    loop = app._Loop()
    try:
        times = {loop.time() for _ in range(1000)}
        assert len(times) > 500
        assert max(times) - min(times) < 0.5
    finally:
        loop.close()
