"""A gRPC API over a recording core, on a free loopback port."""

from collections.abc import AsyncIterator

import grpc
import pytest

from opserve_server.administration import Administration
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.server import grpc_server
from opserve_server.inference.infer import Inference
from server.conformance_service import idle_conformance
from server.guards import keyless_guard
from server.recording import RecordingService

MESSAGE_LIMIT = 64 * 1024
CHUNK_LIMIT = 16 * 1024


@pytest.fixture
def service() -> RecordingService:
    return RecordingService()


@pytest.fixture
def health(service: RecordingService) -> Health:
    return Health(service)


@pytest.fixture
async def channel(service: RecordingService, health: Health) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc_server(
        service,
        keyless_guard(),
        Administration(service, None),
        idle_conformance(service),
        health,
        inference=Inference(service, output_bytes_limit=MESSAGE_LIMIT),
        message_bytes_limit=MESSAGE_LIMIT,
        chunk_bytes_limit=CHUNK_LIMIT,
        silent_client_limit_s=30,
    )
    port = server.add_insecure_port("127.0.0.1:0")
    health.update()
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as connected:
        yield connected
    await server.stop(None)
