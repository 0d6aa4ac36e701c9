"""The APIs: bound to their addresses, served, and drained at the end."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil

import grpc
import uvicorn
from typing_extensions import override

from opserve_server.addresses import host_and_port
from opserve_server.administration import Administration
from opserve_server.conformance.conformance import Conformance
from opserve_server.connect_api.rpcs import connect_rpcs
from opserve_server.core.service import Service
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.server import grpc_server
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.open_calls import OpenCalls
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.rest_api.connections import (
    Connection,
    ConnectionLimits,
    OpenConnections,
    probe_silent_clients,
)
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.settings import Settings, where_set
from opserve_server.telemetry.metrics import Metrics
from opserve_server.tls import Tls, tls_of

log = logging.getLogger(__name__)
_WAITING_CALLS = 3000
"""gRPC calls that wait for a handler; each takes less than half a millisecond."""
_LAST_ANSWERS_S = 1.0
"""Seconds for written answers to reach their clients when the service ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses of a running service in client form, and whether it requires a key."""

    grpc: str
    rest: str
    keys: bool


class StartFailed(Exception):
    """The service cannot start; the message is one line for the user."""


@asynccontextmanager
async def bound_apis(
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    metrics: Metrics,
    settings: Settings,
) -> AsyncGenerator["Apis"]:
    """Both APIs, bound to their addresses until the block ends; they accept no calls yet.

    Raises:
        StartFailed: An address cannot be bound.
        SettingRefused: A file of TLS cannot be used.
    """
    tls = tls_of(settings)
    with _listen("rest_address", settings.rest_address) as listener:
        probe_silent_clients(listener, limit_s=settings.silent_client_limit_s)
        health = Health(service)
        inference = Inference(service, output_bytes_limit=settings.message_bytes_limit)
        behind = (service, guard, administration, conformance)
        server = _new_grpc_server(*behind, health, inference=inference, settings=settings)
        try:
            addresses = Addresses(
                grpc=_add_port(server, settings.grpc_address, tls),
                rest=f"{'https' if tls else 'http'}://{_name_of(listener)}",
                keys=not guard.keyless,
            )
            app = new_rest_app(*behind, metrics, inference=inference, settings=settings)
            rest = _RestServer(app, settings, tls)
            yield Apis(addresses, server, rest, listener, health, tls, guard.open_calls)
        finally:
            await server.stop(None)


@dataclass(frozen=True, slots=True)
class Apis:
    """Both APIs, bound to their addresses."""

    addresses: Addresses
    _server: grpc.aio.Server
    _rest: "_RestServer"
    _listener: socket.socket
    _health: Health
    _tls: Tls | None
    _open_calls: OpenCalls

    @asynccontextmanager
    async def serving(self, service: Service, settings: Settings) -> AsyncGenerator[None]:
        """Accepts calls inside the block; at its end completes work, then accepts no more."""
        rest, health = self._rest, self._health
        health.update()
        await self._server.start()
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(rest.serve([self._listener]))
            interval_s = settings.health_interval_s
            lasting = [tasks.create_task(health.keep_updated(interval_s=interval_s))]
            lasting.append(tasks.create_task(service.keep_ticking()))
            if self._tls is not None:
                lasting.append(tasks.create_task(self._tls.keep_looking()))
            await rest.accepting.wait()
            try:
                yield
            finally:
                try:
                    await self._drain(service, settings.drain_timeout_s)
                finally:
                    rest.end(within_s=_LAST_ANSWERS_S)
                    await self._server.stop(_LAST_ANSWERS_S)
                    await asyncio.wait([serving])
                    for task in lasting:
                        task.cancel()

    async def _drain(self, service: Service, timeout_s: float) -> None:
        """Completes work while the APIs reject new work, then answers every open call.

        A second signal cancels it: then calls end at once, and are still answered.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        draining = asyncio.create_task(service.drain())
        await asyncio.sleep(0)  # from here on it rejects new work
        self._health.drain()
        left_s = 0.0
        try:
            await asyncio.wait_for(draining, deadline_s - loop.time())
            left_s = max(deadline_s - loop.time(), 0.0)
        except TimeoutError:
            log.warning("ending work that still runs after %g s", timeout_s)
        finally:
            # Answer every call before the servers stop, which would only cut it off.
            await self._open_calls.end(within_s=left_s)


def _new_grpc_server(  # noqa: PLR0913  # each by its name
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    health: Health,
    *,
    inference: Inference,
    settings: Settings,
) -> grpc.aio.Server:
    return grpc_server(
        service,
        guard,
        administration,
        conformance,
        health,
        inference=inference,
        bounds=_grpc_bounds(settings),
        message_bytes_limit=settings.message_bytes_limit,
        chunk_bytes_limit=settings.chunk_bytes,
        silent_client_limit_s=settings.silent_client_limit_s,
    )


def new_rest_app(  # noqa: PLR0913  # each by its name
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    metrics: Metrics,
    *,
    inference: Inference,
    settings: Settings,
) -> RestApi:
    """The application of the HTTP port: the REST API and the Connect API."""
    return rest_app(
        service,
        guard,
        administration,
        conformance,
        inference=inference,
        accepts=lambda: not service.draining,
        metrics_page=metrics.page,
        body_bytes_limit=settings.body_bytes_limit,
        run_limits=RunLimits(
            args_bytes=settings.body_bytes_limit,
            run_bytes=settings.run_bytes_limit,
            arrays=settings.run_arrays_limit,
            concurrent_runs=settings.concurrent_runs_limit,
            waiting_runs=settings.tenant_runs_waiting_limit,
        ),
        rpcs=connect_rpcs(
            service,
            administration,
            conformance,
            message_bytes_limit=settings.message_bytes_limit,
            chunk_bytes_limit=settings.chunk_bytes,
        ),
    )


def _listen(setting: str, address: str) -> socket.socket:
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "is in use" if taken else f"cannot be bound: {_formatted(error)}"
        raise StartFailed(
            f"{setting}: {address} {reason}; choose another with {where_set(setting)}"
        ) from error


def _formatted(error: OSError) -> str:
    """An OSError without its number and the address that Python adds."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _add_port(server: grpc.aio.Server, address: str, tls: Tls | None) -> str:
    # gRPC reports the cause of a failed bind only in its own log, so the address is tried before.
    _listen("grpc_address", address).close()
    host, _, _ = address.rpartition(":")
    try:
        if tls is None:
            return f"{host}:{server.add_insecure_port(address)}"
        return f"grpcs://{host}:{server.add_secure_port(address, tls.credentials)}"
    except RuntimeError as error:
        where = f"grpc_address: {address} cannot be bound"
        raise StartFailed(f"{where}; choose another with {where_set('grpc_address')}") from error


def _name_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _grpc_bounds(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", settings.connections_limit),
        ("grpc.max_concurrent_streams", settings.streams_per_connection_limit),
        # Calls that wait for a handler take 16 KiB each. By default gRPC rejects some by chance
        # from 1000 on, also those of other clients; between the two limits nothing is left to
        # chance.
        ("grpc.server.max_pending_requests", _WAITING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", _WAITING_CALLS),
        # A client that answers pings without a call would occupy a connection.
        ("grpc.max_connection_idle_ms", round(settings.silent_client_limit_s * 1000)),
        # Nothing else ends a call whose client reads nothing: gRPC sends the status after the
        # answer. A watch, the longest call that the service ends itself, still reaches its own end.
        ("grpc.max_connection_age_ms", round(settings.connection_age_limit_s * 1000)),
        ("grpc.max_connection_age_grace_ms", round(settings.watch_limit_s * 1100)),
        # Beyond the first limit gRPC rejects some calls by chance, beyond the second all.
        ("grpc.max_metadata_size", settings.metadata_bytes_limit),
        ("grpc.absolute_max_metadata_size", settings.metadata_bytes_limit),
        ("grpc.server_handshake_timeout_ms", round(settings.handshake_timeout_s * 1000)),
    ]


def _connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        headers=settings.headers_limit,
        target_bytes=settings.target_bytes_limit,
        framing_bytes=settings.chunk_framing_bytes_limit,
    )


class _RestServer(uvicorn.Server):
    """A server that reports when it accepts calls and leaves signals to the service."""

    def __init__(self, app: RestApi, settings: Settings, tls: Tls | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ssl_context_factory=None if tls is None else lambda _, __: tls.context,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=ceil(settings.silent_client_limit_s),
                h11_max_incomplete_event_size=settings.head_bytes_limit,
            )
        )
        self._limits = _connection_limits(settings)
        self._connections = OpenConnections(
            of_address=settings.connections_per_address_limit, in_all=settings.connections_limit
        )
        self._handshake_timeout_s = settings.handshake_timeout_s
        self.accepting = asyncio.Event()

    def end(self, *, within_s: float) -> None:
        """Accepts no more calls, and cancels those that take longer."""
        self.config.timeout_graceful_shutdown = ceil(within_s)
        self.should_exit = True

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As in uvicorn for given sockets, with a limit on the time of a handshake.
        secure = self.config.ssl is not None
        connect = partial(
            Connection,
            limits=self._limits,
            connections=self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                connect,
                sock=listener,
                ssl=self.config.ssl,
                ssl_handshake_timeout=self._handshake_timeout_s if secure else None,
                backlog=self.config.backlog,
            )
            for listener in sockets or ()
        ]
        self.started = True
        self.accepting.set()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
