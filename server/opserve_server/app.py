"""The composition root: settings, devices, the core and both faces, in one process and loop."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from math import ceil
from typing import TYPE_CHECKING

import grpc
import uvicorn
import uvloop
from starlette.applications import Starlette
from typing_extensions import override

from opserve_kernels.loop_cache import folders_of
from opserve_server.allocator import keep_freed_memory
from opserve_server.core.limits import Limits
from opserve_server.core.observations import Observation, Observe
from opserve_server.core.service import Service
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.server import grpc_server
from opserve_server.local_lane import local_lane, new_lane_name
from opserve_server.pool.device import KERNELS, Device, WorkerDied
from opserve_server.rest_api.app import rest_app
from opserve_server.rest_api.connections import Connection, probe_silent_clients
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.settings import (
    SettingRefused,
    Settings,
    host_and_port,
    settings_of_environment,
    where_set,
)
from opserve_server.telemetry.logs import log_observation, log_to_stderr
from opserve_server.telemetry.metrics import Metrics

TRACE_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables, of which one says where traces go."""
COMPILING_INTERVAL_S = 5.0  # between two lines of the log
ENDING = (signal.SIGTERM, signal.SIGINT)
STOP_TIMEOUT_S = 1.0
"""Seconds to stop what runs when the drain is over; a worker that takes longer is killed."""
STATUS_GIVEN_UP = 1

if TYPE_CHECKING:
    from opserve_server.telemetry.traces import Traces

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a running service is reached: host:port, and a URL."""

    grpc: str
    rest: str


class _Loop(uvloop.Loop):
    """uvloop's own clock counts milliseconds; the times of events and of a history count less."""

    @override
    def time(self) -> float:
        return time.monotonic()


class StartFailed(Exception):
    """The service cannot start; the message is one line for whoever started it."""


def main() -> int:
    """Serves until SIGTERM or SIGINT; the result is the exit status."""
    try:
        settings = settings_of_environment()
        log_to_stderr(settings.log_level)
        keep_freed_memory()
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(_serve(settings))
    except asyncio.CancelledError:
        return STATUS_GIVEN_UP
    except SettingRefused as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return 2
    except StartFailed as failed:
        sys.stderr.write(f"opserve: {failed}\n")
        return 1
    return 0


async def _serve(settings: Settings) -> None:
    stopping = _stopping_on_signals()
    log.info("starting: a few seconds, when kernels are compiled")
    async with running(settings) as addresses:
        log.debug("ready: gRPC on %s, REST on %s", addresses.grpc, addresses.rest)
        ready = {"event": "ready", "grpc": addresses.grpc, "rest": addresses.rest}
        sys.stdout.write(f"{json.dumps(ready)}\n")
        sys.stdout.flush()
        await stopping.wait()
        log.info("the service drains")


def _stopping_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the drain, and the third the process."""
    stopping = asyncio.Event()
    serving = asyncio.current_task()
    assert serving is not None
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            for number in ENDING:
                loop.remove_signal_handler(number)
            log.warning("told to stop again: work that still runs is given up")
            serving.cancel()
        stopping.set()

    for number in ENDING:
        loop.add_signal_handler(number, stop)
    return stopping


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Addresses]:
    """A service that takes calls inside the `async with` block, and drains at its end.

    Raises:
        StartFailed: An address cannot be bound, or a worker does not become ready in time.
    """
    devices = new_devices(settings)
    lane_name = new_lane_name() if settings.local_lane else ""
    metrics, traces = Metrics(), _traces()
    trace_observers = [] if traces is None else [traces.observe]
    service = Service(
        devices,
        limits=core_limits(settings),
        local_lane=lane_name,
        observe=_observer(log_observation, metrics.observe, *trace_observers),
    )
    metrics.watch(service, devices)
    health = Health(service)
    async with AsyncExitStack() as stack:
        if traces is not None:
            stack.callback(traces.stop)
        # Addresses are bound first, so that a taken one is told before any worker starts.
        listener = stack.enter_context(_listen("rest_address", settings.rest_address))
        probe_silent_clients(listener, limit_s=settings.silent_client_limit_s)
        server = _new_grpc_server(service, health, settings)
        stack.push_async_callback(server.stop, None)
        grpc_address = _add_port(server, settings.grpc_address)

        for device in devices:
            stack.push_async_callback(device.stop)
        await _start(devices)
        stack.push_async_callback(_stop_service, service)

        if lane_name:
            lane = local_lane(
                service,
                lane_name,
                requests_limit=settings.local_requests_limit,
                request_timeout_s=settings.local_request_timeout_s,
            )
            stack.enter_context(lane)
        faces = _Faces(server, listener, health, metrics)
        await stack.enter_async_context(faces.serving(service, settings))
        yield Addresses(grpc=grpc_address, rest=f"http://{_name_of(listener)}")


def _traces() -> "Traces | None":
    """Traces, where an endpoint is set; nothing of OpenTelemetry is imported where none is."""
    endpoint = next((name for name in TRACE_ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None:
        return None
    try:
        from opserve_server.telemetry.traces import exported_traces  # noqa: PLC0415
    except ImportError as error:
        told = f"{endpoint} is set, and opserve[otel] is not installed"
        raise StartFailed(f"traces: {told}") from error
    return exported_traces()


def _observer(*observers: Observe) -> Observe:
    def observe(observation: Observation) -> None:
        for observer in observers:
            observer(observation)

    return observe


@dataclass(frozen=True, slots=True)
class _Faces:
    """Both faces, bound to their addresses."""

    server: grpc.aio.Server
    listener: socket.socket
    health: Health
    metrics: Metrics

    @asynccontextmanager
    async def serving(self, service: Service, settings: Settings) -> AsyncGenerator[None]:
        """Takes calls inside the block; at its end finishes work, and then takes no more calls."""
        rest = _RestServer(_new_rest_app(service, self.metrics, settings), settings)
        await self.health.tell()
        await self.server.start()
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(rest.serve([self.listener]))
            interval_s = settings.health_interval_s
            telling = tasks.create_task(self.health.keep_telling(interval_s=interval_s))
            await rest.accepting.wait()
            try:
                yield
            finally:
                left_s = await self._drain(service, settings.drain_timeout_s)
                rest.end(within_s=left_s)
                await self.server.stop(left_s)
                await asyncio.wait([serving])
                telling.cancel()

    async def _drain(self, service: Service, timeout_s: float) -> float:
        """Lets work end while the faces refuse new work; the seconds that are left then."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        draining = asyncio.create_task(service.drain())
        await asyncio.sleep(0)  # it refuses new work from here on
        await self.health.drain()
        try:
            await asyncio.wait_for(draining, deadline_s - loop.time())
        except TimeoutError:
            log.warning("work was still running after %g s and is given up", timeout_s)
        return max(deadline_s - loop.time(), 0.0)


def new_devices(settings: Settings) -> list[Device]:
    """The devices of the settings, named by profile and number; not started."""
    return [
        Device(
            name=f"{profile}-{settings.devices[:place].count(profile)}",
            profile=profile,
            memory_bytes=settings.device_memory_bytes,
            slab_bytes=settings.slab_bytes,
            start_timeout_s=settings.worker_start_timeout_s,
            call_time_limit_s=settings.call_time_limit_s,
            silence_limit_s=settings.worker_silence_limit_s,
            threads=settings.device_threads,
        )
        for place, profile in enumerate(settings.devices)
    ]


def core_limits(settings: Settings) -> Limits:
    """The settings that bound the core."""
    return Limits(**{field.name: getattr(settings, field.name) for field in fields(Limits)})


def _new_grpc_server(service: Service, health: Health, settings: Settings) -> grpc.aio.Server:
    return grpc_server(
        service,
        health,
        message_bytes_limit=settings.message_bytes_limit,
        concurrent_calls_limit=settings.concurrent_calls_limit,
        silent_client_limit_s=settings.silent_client_limit_s,
    )


def _new_rest_app(service: Service, metrics: Metrics, settings: Settings) -> Starlette:
    return rest_app(
        service,
        accepts=lambda: not service.draining,
        metrics_page=metrics.page,
        body_bytes_limit=settings.body_bytes_limit,
        run_limits=RunLimits(
            args_bytes=settings.body_bytes_limit,
            run_bytes=settings.run_bytes_limit,
            arrays=settings.run_arrays_limit,
            concurrent_runs=settings.concurrent_runs_limit,
        ),
    )


async def _start(devices: Sequence[Device]) -> None:
    telling = asyncio.create_task(_tell_of_compiling())
    try:
        async with asyncio.TaskGroup() as starting:
            for device in devices:
                starting.create_task(device.start())
    except* (WorkerDied, OSError) as group:
        failures = group.exceptions
    else:
        return
    finally:
        telling.cancel()
    reason = (
        f"{failures[0]}"
        or f"not ready in time; allow more with {where_set('worker_start_timeout_s')}"
    )
    raise StartFailed(f"devices: {reason}")


async def _tell_of_compiling() -> None:
    """Tells how far kernels are compiled, until all are."""
    folders = folders_of(KERNELS.values()).values()
    while (begun := sum(folder.exists() for folder in folders)) < len(folders):
        log.info("compiling kernels, once: %d of %d modules", begun, len(folders))
        await asyncio.sleep(COMPILING_INTERVAL_S)


async def _stop_service(service: Service) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(service.stop(), STOP_TIMEOUT_S)


def _listen(setting: str, address: str) -> socket.socket:
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "is in use" if taken else f"cannot be bound: {_told(error)}"
        raise StartFailed(
            f"{setting}: {address} {reason}; choose another with {where_set(setting)}"
        ) from error


def _told(error: OSError) -> str:
    """An error without the number, and without the address that Python adds."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _add_port(server: grpc.aio.Server, address: str) -> str:
    # gRPC says in its own log alone why it cannot bind, so the address is tried before.
    _listen("grpc_address", address).close()
    host, _, _ = address.rpartition(":")
    try:
        return f"{host}:{server.add_insecure_port(address)}"
    except RuntimeError as error:
        where = f"grpc_address: {address} cannot be bound"
        raise StartFailed(f"{where}; choose another with {where_set('grpc_address')}") from error


def _name_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _RestServer(uvicorn.Server):
    """A server that tells when it accepts calls and leaves signals to the service."""

    def __init__(self, app: Starlette, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=ceil(settings.silent_client_limit_s),
                limit_concurrency=settings.concurrent_calls_limit,
                h11_max_incomplete_event_size=settings.head_bytes_limit,
            )
        )
        self.accepting = asyncio.Event()

    def end(self, *, within_s: float) -> None:
        """Takes no more calls, and cancels those that take longer."""
        self.config.timeout_graceful_shutdown = ceil(within_s)
        self.should_exit = True

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
