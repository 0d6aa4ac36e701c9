"""A deployment for administrators' tests: a service with a store, its APIs, and clients."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
import httpx2
import pytest

from contract.rest_transport import RestTransport
from opserve_client import AsyncClient, OpserveError
from opserve_client.runtime_async import Sleep
from opserve_client.transports import AsyncConnectTransport
from opserve_server.administration import Administration
from opserve_server.bootstrap import first_key
from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.connect_api.rpcs import connect_rpcs
from opserve_server.core.accounts import Accounts
from opserve_server.core.audit import AuditEntry, AuditQuery, RefusedCalls
from opserve_server.core.service import Service
from opserve_server.grpc_api.health import Health
from opserve_server.grpc_api.server import grpc_server
from opserve_server.guard import Guard
from opserve_server.identity import Identity
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.store.store import Store, open_store
from opserve_server.telemetry.metrics import Metrics
from opserve_server.tokens import Tokens
from server.conformance_service import conformance_of
from server.connections_in_memory import ConnectionsInMemory
from server.core.fakes import LIMITS, FakeDevice
from server.entry_points import RUN_LIMITS
from server.guards import CALLS, GUESSES
from server.token_issuer import ISSUER, FixedKeys

NOW = 1_800_000_000.0
APIS = ("grpc", "rest", "connect")


class Clock:
    """Seconds since 1970, set by the test."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A service, its store, and the key of its administrator."""

    store: Store
    service: Service
    refused: RefusedCalls
    clock: Clock
    key: str
    rest: httpx2.ASGITransport
    grpc_address: str

    def client(
        self, api: str, key: str | None = None, *, sleep: Sleep = asyncio.sleep
    ) -> AsyncClient:
        """A client over an API; unless another key is given, the administrator's."""
        key = key or self.key
        if api == "grpc":
            return AsyncClient(self.grpc_address, api_key=key, sleep=sleep)
        headers = {"authorization": f"Bearer {key}"}
        base = "http://service.example"
        http = httpx2.AsyncClient(transport=self.rest, base_url=base, headers=headers)
        if api == "rest":
            return AsyncClient(transport=RestTransport(base, http=http), sleep=sleep)
        transport = AsyncConnectTransport(base, http=ConnectionsInMemory(http))
        return AsyncClient(transport=transport, sleep=sleep)

    async def audit(self) -> list[AuditEntry]:
        """All entries, the eldest first, refused callers too."""
        await self.refused.flush(self.store.audit.record)
        page = await self.store.audit.page(AuditQuery(), limit=1000)
        return list(reversed(page.entries))


@asynccontextmanager
async def open_deployment(url: str) -> AsyncGenerator[Deployment]:
    """A deployment on a store without tenants, with an administrator."""
    clock, accounts, device = Clock(), Accounts(), FakeDevice()
    refused = RefusedCalls(limit=100, clock=clock)
    service = Service([device], limits=LIMITS, accounts=accounts, observe=refused.observe)
    tokens = Tokens(FixedKeys(), limit=16)
    guard = Guard(accounts, unknown_keys=GUESSES, calls=CALLS, tokens=tokens, clock=clock)
    async with AsyncExitStack() as stack:
        opened = open_store(url, timeout_s=20.0, connections_limit=4)
        store = await stack.enter_async_context(opened)
        key = await first_key(store, "admin", force=False, now=clock.now)
        identity = Identity(guard, service, store, refused, audit_retention_days=1.0, clock=clock)
        await identity.begin()
        administration = Administration(service, identity, issuers=[ISSUER], clock=clock)
        workers = ConformanceWorkers(1)
        stack.push_async_callback(workers.close)
        conformance = conformance_of(service, workers, store.runs)
        app, server = _apis(service, guard, administration, conformance)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, None)
        stack.callback(device.slabs.close)
        stack.push_async_callback(service.stop)
        yield Deployment(
            store=store,
            service=service,
            refused=refused,
            clock=clock,
            key=key,
            rest=httpx2.ASGITransport(app=app),
            grpc_address=f"127.0.0.1:{port}",
        )


def _apis(
    service: Service, guard: Guard, administration: Administration, conformance: Conformance
) -> tuple[RestApi, grpc.aio.Server]:
    rpcs = connect_rpcs(
        service,
        administration,
        conformance,
        message_bytes_limit=2**20,
        chunk_bytes_limit=2**18,
    )
    inference = Inference(service, output_bytes_limit=2**20)
    app = rest_app(
        service,
        guard,
        administration,
        conformance,
        inference=inference,
        accepts=lambda: True,
        metrics_page=Metrics().page,
        body_bytes_limit=4096,
        run_limits=RUN_LIMITS,
        rpcs=rpcs,
    )
    server = grpc_server(
        service,
        guard,
        administration,
        conformance,
        Health(service),
        inference=inference,
        message_bytes_limit=2**20,
        chunk_bytes_limit=2**18,
        silent_client_limit_s=30,
    )
    return app, server


async def refusal(call: Awaitable[object]) -> OpserveError:
    """The error of a refused call."""
    with pytest.raises(OpserveError) as caught:
        await call
    return caught.value
