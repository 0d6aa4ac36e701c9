"""A key is in no output of the service, whether it is valid or not."""

import logging
from collections.abc import AsyncIterator, Sequence

import grpc
import httpx2
import pytest
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opserve.v1.session_service_pb2 import ListDevicesRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve_server.core.audit import AuditEntry, RefusedCalls
from opserve_server.core.observations import CALL, CallBegan, Observation
from opserve_server.telemetry.logs import log_observation
from opserve_server.telemetry.metrics import Metrics
from opserve_server.telemetry.traces import Traces
from server.entry_points import EntryPoints, headers, open_entry_points
from server.guards import ServiceWithKeys, service_with_keys
from server.recording import RecordingService


class Telemetry:
    """Logs, metrics, traces and audit entries of calls, as text."""

    def __init__(self) -> None:
        self.metrics, self.spans = Metrics(), InMemorySpanExporter()
        self.traces = Traces(SimpleSpanProcessor(self.spans))
        self.refused = RefusedCalls(limit=100, clock=lambda: 1.0)
        self.entries: list[AuditEntry] = []
        self.texts: list[str] = []

    def observe(self, observation: Observation) -> None:
        for observer in (
            self.metrics.observe,
            self.traces.observe,
            self.refused.observe,
            log_observation,
        ):
            observer(observation)
        if isinstance(observation, CallBegan):
            sent = observation.call.headers
            self.texts += [f"{observation.call!r}{CALL.get()!r}", f"{dict(sent)}"]

    async def keep(self, entries: Sequence[AuditEntry]) -> None:
        self.entries += entries

    async def everything(self) -> str:
        await self.refused.flush(self.keep)
        spans = [span.to_json() for span in self.spans.get_finished_spans()]
        return "\n".join([*self.texts, *spans, repr(self.entries), self.metrics.page().decode()])


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def with_keys() -> ServiceWithKeys:
    return service_with_keys()


@pytest.fixture
async def entry_points(
    telemetry: Telemetry, with_keys: ServiceWithKeys
) -> AsyncIterator[EntryPoints]:
    service = RecordingService(observe=telemetry.observe)
    async with open_entry_points(service, with_keys.guard, telemetry.metrics) as opened:
        yield opened


async def answers(entry_points: EntryPoints, key: str) -> list[str]:
    """Answers of both APIs."""
    answer: httpx2.Response = await entry_points.rest.get("/v1/devices", headers=headers(key))
    texts = [answer.text, str(answer.headers)]
    stub = SessionServiceStub(entry_points.channel)
    try:
        await stub.ListDevices(ListDevicesRequest(), metadata=tuple(headers(key).items()))
    except grpc.aio.AioRpcError as error:
        packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
        assert isinstance(packed, bytes)
        texts += [repr(error), str(RpcStatus.FromString(packed))]
    return texts


async def test_no_key_is_revealed(
    entry_points: EntryPoints,
    with_keys: ServiceWithKeys,
    telemetry: Telemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        answered = {
            key: await answers(entry_points, key)
            for key in (with_keys.lab, *with_keys.closed.values())
        }
    everything = "\n".join(
        [await telemetry.everything(), caplog.text, *map(str, answered.values())]
    )
    assert "listDevices" in everything, "something was logged"
    assert "UNAUTHENTICATED" in everything
    assert telemetry.entries
    for key in answered:
        for part in (key, key[8:24], key[-12:]):
            assert part not in everything
    assert "authorization': 'B" not in everything
    assert "Bearer opserve" not in everything


async def test_refused_callers_are_kept_for_the_audit(
    entry_points: EntryPoints, with_keys: ServiceWithKeys, telemetry: Telemetry
) -> None:
    for key in (with_keys.closed["expired"], with_keys.closed["unknown"], with_keys.lab):
        await answers(entry_points, key)
    await telemetry.everything()
    known = {
        (one.face, one.method, one.outcome, one.tenant, one.reason) for one in telemetry.entries
    }
    assert {entry[:4] for entry in known} == {
        ("rest", "listDevices", "401", "lab"),
        ("rest", "listDevices", "401", ""),
        ("grpc", "ListDevices", "UNAUTHENTICATED", "lab"),
        ("grpc", "ListDevices", "UNAUTHENTICATED", ""),
    }
    assert any("has expired" in entry[4] for entry in known)
