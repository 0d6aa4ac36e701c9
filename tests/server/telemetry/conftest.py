"""The APIs over a recording core whose observations a test reads."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
import httpx2
import pytest

from opserve_server.administration import Administration
from opserve_server.conformance.conformance import Conformance
from opserve_server.connect_api.rpcs import connect_rpcs
from opserve_server.core.observations import CallEnded, Observation, Observe
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.server import grpc_server
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.telemetry.logs import log_observation
from opserve_server.telemetry.metrics import Metrics
from server.conformance_service import idle_conformance
from server.guards import keyless_guard
from server.recording import RecordingService


@dataclass
class Apis:
    """The APIs of one service, and what was observed."""

    service: RecordingService
    metrics: Metrics
    rest: httpx2.AsyncClient
    grpc: grpc.aio.Channel
    observed: list[Observation]
    target: str
    observers: list[Observe]

    async def all_ended(self, *, calls: int) -> None:
        """Returns when so many calls are over, which gRPC's are behind their answers."""
        while self._ended() < calls:  # noqa: ASYNC110  # what is observed knows no event
            await asyncio.sleep(0)

    def _ended(self) -> int:
        return sum(isinstance(observation, CallEnded) for observation in self.observed)


def http_app(
    behind: tuple[RecordingService, Guard, Administration, Conformance], metrics: Metrics
) -> RestApi:
    service, _, administration, conformance = behind
    rpcs = connect_rpcs(
        service,
        administration,
        conformance,
        message_bytes_limit=64 * 1024,
        chunk_bytes_limit=1024,
    )
    return rest_app(
        *behind,
        inference=Inference(service, output_bytes_limit=1024),
        accepts=lambda: True,
        metrics_page=metrics.page,
        body_bytes_limit=1024,
        run_limits=RunLimits(
            args_bytes=1024, run_bytes=1024, arrays=3, concurrent_runs=1, waiting_runs=4
        ),
        rpcs=rpcs,
    )


@pytest.fixture
async def apis() -> AsyncIterator[Apis]:
    service, metrics = RecordingService(), Metrics()
    observed: list[Observation] = []
    observers: list[Observe] = []

    def observe(observation: Observation) -> None:
        observed.append(observation)
        metrics.observe(observation)
        log_observation(observation)
        for observer in observers:
            observer(observation)

    service.observe = observe
    behind = (
        service,
        keyless_guard(),
        Administration(service, None),
        idle_conformance(service),
    )
    app = http_app(behind, metrics)
    server = grpc_server(
        *behind,
        Health(service),
        inference=Inference(service, output_bytes_limit=1024),
        message_bytes_limit=64 * 1024,
        chunk_bytes_limit=1024,
        silent_client_limit_s=30,
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    transport = httpx2.ASGITransport(app=app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as rest,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield Apis(service, metrics, rest, channel, observed, f"127.0.0.1:{port}", observers)
    await server.stop(None)
