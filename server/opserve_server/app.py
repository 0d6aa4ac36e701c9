"""The composition root: settings, devices, the core and both APIs, in one process and loop."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import uvloop
from typing_extensions import override

from opserve_kernels.registry import kernels_of, kernels_of_all
from opserve_kernels.status import ExitStatus
from opserve_server.addresses import reached
from opserve_server.administration import Administration
from opserve_server.allocator import freeze_loaded_objects, keep_freed_memory
from opserve_server.conformance.calls import SCOPE as CONFORMANCE_SCOPE
from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.history import History, HistoryLimits
from opserve_server.conformance.reference import ConformanceLimits, ReferenceDevice
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.conformance.watched_runs import WatchedRuns
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.accounts import Accounts
from opserve_server.core.audit import RefusedCalls
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.farm import SINGLE
from opserve_server.core.limits import Limits
from opserve_server.core.observations import (
    CallBegan,
    CallEnded,
    CopyEnded,
    Observation,
    Observe,
    WorkEnded,
)
from opserve_server.core.principal import Scope
from opserve_server.core.service import Service
from opserve_server.core.watches import Audience
from opserve_server.first_start import compile_missing
from opserve_server.guard import Guard
from opserve_server.host_limits import within_host_limits
from opserve_server.identity import Identity
from opserve_server.issuers import IssuerKeys
from opserve_server.npz import ArrayLimits
from opserve_server.open_calls import CallLimits
from opserve_server.pool.device import Device, WorkerDied
from opserve_server.pool.process import preload
from opserve_server.serving import Addresses, StartFailed, bound_apis
from opserve_server.settings import (
    SettingRefused,
    Settings,
    changed_settings,
    device_names,
    settings_of_environment,
    where_set,
)
from opserve_server.shared_memory import new_shared_memory_name, serve_shared_memory
from opserve_server.stop_guard import SIGNALS, StopGuard, stop_guard
from opserve_server.store_synchronisation import (
    key_policy,
    store_synchronisation,
    unknown_key_limits,
)
from opserve_server.telemetry.activity import ApiActivity
from opserve_server.telemetry.logs import log_observation, log_to_stderr
from opserve_server.telemetry.metrics import Metrics
from opserve_server.tokens import Tokens

TRACE_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables, one of which names the endpoint of traces."""
STOP_TIMEOUT_S = 1.0
"""Seconds to stop running work after the drain; a worker that takes longer is killed."""
KILL_AFTER_S = 5.0
"""Seconds beyond the drain after which a front that has not ended is killed: its loop is stuck."""
SWITCH_INTERVAL_S = 0.0005
"""Longest time for which a thread that unpacks arrays holds the interpreter lock against the event
loop; with Python's default of 5 ms other calls were delayed noticeably."""

if TYPE_CHECKING:
    from opserve_server.farm import Membership
    from opserve_server.telemetry.traces import Traces

log = logging.getLogger(__name__)


class _Loop(uvloop.Loop):
    """uvloop with a precise clock: its own counts milliseconds, too coarse for a history."""

    @override
    def time(self) -> float:
        return time.monotonic()


def main() -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status."""
    try:
        settings = settings_of_environment()
        log_to_stderr(settings.log_level, settings.log_format)
        settings = within_host_limits(settings)
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        with (
            stop_guard(settings.drain_timeout_s + KILL_AFTER_S) as guard,
            asyncio.Runner(loop_factory=_Loop) as runner,
        ):
            return runner.run(_serve(settings, guard))
    except asyncio.CancelledError:
        return ExitStatus.FAILED
    except SettingRefused as refused:
        sys.stderr.write(f"opserve: {refused}\n")
        return ExitStatus.UNUSABLE
    except StartFailed as failed:
        sys.stderr.write(f"opserve: {failed}\n")
        return ExitStatus.FAILED


async def _serve(settings: Settings, guard: StopGuard) -> ExitStatus:
    signals = _signals()
    guard.watch()
    log.info("starting: a few seconds, or minutes where kernels have to be compiled first")
    try:
        async with running(settings) as addresses:
            signals.is_ready = True
            _announce(addresses)
            await signals.stop.wait()
            log.info("the service drains")
    except asyncio.CancelledError:
        if signals.is_ready:
            raise
        log.info("stopped before the service was ready")
        interrupted = signals.first == signal.SIGINT
        return ExitStatus.INTERRUPTED if interrupted else ExitStatus.DONE
    return ExitStatus.DONE


def _announce(addresses: Addresses) -> None:
    """Reports on standard output that the service is ready."""
    freeze_loaded_objects()
    log.debug("ready: gRPC on %s, REST on %s", addresses.grpc, addresses.rest)
    if not addresses.keys:
        log.info("no key is required: every user of this machine may call the service")
    ready = {"event": "ready", **asdict(addresses)}
    sys.stdout.write(f"{json.dumps(ready)}\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Signals:
    """Signals that stop the service.

    Attributes:
        stop: Set by the first SIGTERM or SIGINT.
        is_ready: Whether the service is ready: from then on the first signal begins a drain, and
            the second ends it. Before, the first one ends the start. One more ends the process.
        first: The first signal.
    """

    stop: asyncio.Event
    is_ready: bool = False
    first: int = 0


def _signals() -> Signals:
    """Handles the signals from now on."""
    signals = Signals(asyncio.Event())
    serving = asyncio.current_task()
    assert serving is not None
    loop = asyncio.get_running_loop()

    def receive(number: int) -> None:
        if signals.stop.is_set():
            for one in SIGNALS:
                loop.remove_signal_handler(one)
            log.warning("stopped again: ending work that still runs")
            serving.cancel()
        elif not signals.is_ready:
            serving.cancel()
        signals.first = signals.first or number
        signals.stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, receive, number)
    return signals


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Addresses]:
    """A service that accepts calls inside the `async with` block, and drains at its end.

    Raises:
        StartFailed: An address cannot be bound, or other machines could reach it without a key, or
            a worker is not ready in time.
    """
    devices = new_devices(settings)
    shared_memory_name = new_shared_memory_name() if settings.shared_memory else ""
    accounts = Accounts(bytes_in_flight=settings.tenant_bytes_in_flight)
    metrics, traces = Metrics(), _traces()
    issuer_keys = _issuer_keys(settings)
    guard = _guard(accounts, issuer_keys, settings)
    membership = _membership(settings)
    refused = RefusedCalls(limit=settings.audit_queue_limit, clock=time.time)
    service = Service(
        devices,
        limits=core_limits(settings),
        shared_memory=shared_memory_name,
        accounts=accounts,
        observe=_observer(metrics, refused, traces),
        farm=membership or SINGLE,
    )
    metrics.count("audit_dropped", refused.count_dropped)
    _add_activity(service, devices, metrics, settings)
    async with AsyncExitStack() as stack:
        if traces is not None:
            stack.callback(traces.stop)
        stack.push_async_callback(issuer_keys.close)
        synchronised = store_synchronisation(guard, service, refused, settings)
        identity = await stack.enter_async_context(synchronised)
        administration = _administration(service, identity, metrics, settings)
        conformance = await stack.enter_async_context(_conformance(service, identity, settings))
        # Addresses are bound first, so that a taken one is reported before any worker starts.
        bound = bound_apis(service, guard, administration, conformance, metrics, settings)
        apis = await stack.enter_async_context(bound)
        for device in devices:
            stack.push_async_callback(device.stop)
        await _start(devices, kernels_of_all(settings.devices))
        stack.push_async_callback(_stop_service, service)
        if shared_memory_name:
            stack.enter_context(_serve_shared_memory(service, guard, shared_memory_name, settings))
        joined = _joined(membership, identity, service, apis.addresses, settings)
        await stack.enter_async_context(joined)
        await stack.enter_async_context(apis.serving(service, settings))
        yield apis.addresses


def _administration(
    service: Service, identity: Identity | None, metrics: Metrics, settings: Settings
) -> Administration:
    if identity is not None:
        metrics.count("store_failures", identity.failures)
    drain = partial(signal.raise_signal, signal.SIGTERM)
    return Administration(service, identity, issuers=settings.identity_issuers, drain=drain)


def _add_activity(
    service: Service, devices: Sequence[Device], metrics: Metrics, settings: Settings
) -> None:
    """Adds what operators see to metrics, watches and series."""
    metrics.watch(service, devices)
    activity, changed = ApiActivity(metrics), {"settings": {"changed": changed_settings(settings)}}

    async def settings_item(_: Audience) -> Mapping[str, object]:
        return changed

    service.series.add_source(activity.samples)
    service.watched.add_source("service", activity.item, scope=Scope.METRICS)
    service.watched.add_source("service", settings_item, scope=Scope.METRICS)


def _membership(settings: Settings) -> "Membership | None":
    """The farm of the service; outside a farm nothing of it is imported."""
    if not settings.farm_name:
        return None
    from opserve_server.farm import Membership  # noqa: PLC0415

    return Membership(settings.farm_name, lease_s=settings.farm_lease_s)


@asynccontextmanager
async def _joined(
    membership: "Membership | None",
    identity: Identity | None,
    service: Service,
    addresses: Addresses,
    settings: Settings,
) -> AsyncGenerator[None]:
    """Keeps the service in the directory of its farm until the block ends, after its drain."""
    if membership is None:
        yield
        return
    assert identity is not None, "settings of a farm have a store"
    from opserve_server.farm import joined  # noqa: PLC0415
    from opserve_server.store.services import Services  # noqa: PLC0415
    from opserve_server.store.waiting import WaitingLine  # noqa: PLC0415

    database = identity.store.database
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(
                joined(
                    membership,
                    Services(database),
                    WaitingLine(database, membership.name),
                    service,
                    grpc_address=reached(addresses.grpc, "grpc", host=settings.farm_host),
                    http_address=reached(addresses.rest, "http", host=settings.farm_host),
                )
            )
        except StoreUnavailable as error:
            raise StartFailed(f"{error.message}; see the log") from error
        yield


def _guard(accounts: Accounts, issuer_keys: IssuerKeys, settings: Settings) -> Guard:
    return Guard(
        accounts,
        unknown_keys=unknown_key_limits(settings),
        calls=call_limits(settings),
        tokens=Tokens(issuer_keys, limit=settings.verified_tokens_limit),
        keys=key_policy(settings),
    )


def _issuer_keys(settings: Settings) -> IssuerKeys:
    return IssuerKeys(
        settings.identity_issuers,
        interval_s=settings.issuer_keys_interval_s,
        age_limit_s=settings.issuer_keys_age_limit_s,
        timeout_s=settings.issuer_timeout_s,
    )


def _serve_shared_memory(
    service: Service, guard: Guard, name: str, settings: Settings
) -> AbstractContextManager[None]:
    return serve_shared_memory(
        service,
        guard,
        name,
        requests_limit=settings.local_requests_limit,
        request_timeout_s=settings.local_request_timeout_s,
    )


def call_limits(settings: Settings) -> CallLimits:
    """The settings that bound open calls."""
    return CallLimits(
        of_tenant=settings.tenant_calls_limit,
        unauthenticated_calls=settings.unauthenticated_calls_limit,
        unauthenticated_bytes=settings.unauthenticated_bytes_limit,
        message_bytes=max(settings.message_bytes_limit, settings.body_bytes_limit),
        silence_s=settings.silent_client_limit_s,
    )


def _traces() -> "Traces | None":
    """Traces where an endpoint is set; otherwise nothing of OpenTelemetry is imported."""
    endpoint = next((name for name in TRACE_ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None:
        return None
    try:
        from opserve_server.telemetry.traces import exported_traces  # noqa: PLC0415
    except ImportError as error:
        observers = f"{endpoint} is set, and opserve[otel] is not installed"
        raise StartFailed(f"traces: {observers}") from error
    return exported_traces()


def _observer(metrics: Metrics, refused: RefusedCalls, traces: "Traces | None") -> Observe:
    """Sends each observer only its own kinds of observations: one Submit makes hundreds."""
    spans = () if traces is None else (traces.observe,)
    observers: Mapping[type[Observation], Sequence[Observe]] = {
        CallBegan: spans,
        CallEnded: (log_observation, metrics.observe, *spans),
        WorkEnded: (metrics.observe, *spans),
        CopyEnded: (metrics.observe,),
    }

    def observe(observation: Observation) -> None:
        for observer in observers[type(observation)]:
            observer(observation)
        if isinstance(observation, CallEnded) and observation.call.audited:
            refused.observe(observation)

    return observe


def new_devices(settings: Settings) -> list[Device]:
    """The devices in the settings, named by profile and number; not started."""
    return [
        Device(
            name=name,
            profile=profile,
            memory_bytes=settings.device_memory_bytes,
            slab_bytes=settings.slab_bytes,
            start_timeout_s=settings.worker_start_timeout_s,
            call_time_limit_s=settings.call_time_limit_s,
            silence_limit_s=settings.worker_silence_limit_s,
            threads=settings.device_threads,
            kernels=kernels_of(profile),
            tags=settings.device_tags.get(name, ()),
        )
        for name, profile in zip(device_names(settings.devices), settings.devices, strict=True)
    ]


def core_limits(settings: Settings) -> Limits:
    """The settings that bound the core."""
    return Limits(**{field.name: getattr(settings, field.name) for field in fields(Limits)})


@asynccontextmanager
async def _conformance(
    service: Service, identity: Identity | None, settings: Settings
) -> AsyncGenerator[Conformance]:
    """The conformance calls, whose worker processes end with the block."""
    limits = ConformanceLimits(
        elements=settings.conformance_elements_limit,
        multiply_adds=settings.conformance_multiply_adds_limit,
        arrays=ArrayLimits(
            arrays=settings.run_arrays_limit, unpacked_bytes=settings.run_bytes_limit
        ),
        expected_values_folder=settings.expected_values_folder,
        expected_values_bytes=settings.expected_values_bytes_limit,
        sent_bytes=settings.conformance_sent_bytes_limit,
        sent_total_bytes=settings.conformance_sent_total_bytes_limit,
    )
    workers = ConformanceWorkers(settings.conformance_processes)
    reference = ReferenceDevice(service, limits)
    runs = SuiteRuns(
        service,
        workers,
        reference,
        None if identity is None else identity.store.runs,
        runs_limit=settings.conformance_runs_limit,
        kept_limit=settings.conformance_history_limit,
    )
    if identity is not None:
        service.watched.add_source("runs", WatchedRuns(runs).read, scope=CONFORMANCE_SCOPE)
    kept = HistoryLimits(
        runs=settings.conformance_history_limit,
        baselines=settings.conformance_baselines_limit,
        report_bytes=settings.conformance_report_bytes_limit,
    )
    try:
        yield Conformance(service, workers, reference, History(runs, workers, kept))
    finally:
        await runs.stop()
        await workers.close()


async def _start(devices: Sequence[Device], kernels: Sequence[str]) -> None:
    await compile_missing(kernels)
    preload(kernels)
    try:
        async with asyncio.TaskGroup() as starting:
            for device in devices:
                starting.create_task(device.start())
    except* (WorkerDied, OSError) as group:
        failures = group.exceptions
    else:
        return
    reason = (
        f"{failures[0]}"
        or f"not ready in time; allow more with {where_set('worker_start_timeout_s')}"
    )
    raise StartFailed(f"devices: {reason}")


async def _stop_service(service: Service) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(service.stop(), STOP_TIMEOUT_S)
