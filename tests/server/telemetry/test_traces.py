"""Spans: from the client's context to the call, and from the call to its queue and kernel."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import override

from contract.rest_transport import RestTransport
from opserve.v1.memory_service_pb2 import FreeRequest, ReadRequest, WriteRequest
from opserve.v1.stream_service_pb2 import WatchStreamRequest
from opserve_client.transports import AsyncConnectTransport, AsyncGrpcTransport, AsyncTransport
from opserve_client.wire.methods import FREE, WATCH_STREAM
from opserve_client.wire.trace_context import trace_headers
from opserve_kernels.status import Status
from opserve_server.calls import ObservedCall
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.observations import Call, CallBegan, Observation, WorkEnded
from opserve_server.telemetry import traces as module
from opserve_server.telemetry.traces import Traces
from server.connections_in_memory import ConnectionsInMemory
from server.recording import ENTRIES, SESSION
from server.telemetry.conftest import Apis

CLIENT = TracerProvider().get_tracer("client")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Traces:
    return Traces(SimpleSpanProcessor(exporter))


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def named(spans: Sequence[ReadableSpan]) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans}


async def test_rest_and_connect_continue_the_clients_span(
    apis: Apis, traces: Traces, exporter: InMemorySpanExporter
) -> None:
    apis.observers.append(traces.observe)
    request = FreeRequest(session=SESSION, buffer=1)
    with CLIENT.start_as_current_span("work") as work:
        await RestTransport("", http=apis.rest).call(FREE, request, timeout_s=30)
        await apis.rest.post(FREE.path, json={"session": SESSION}, headers=trace_headers())
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["Free", "Free"]
    for span in spans:
        assert parent_of(span) == work.get_span_context().span_id
        assert span.context is not None
        assert span.context.trace_id == work.get_span_context().trace_id


async def test_a_refused_call_is_an_error(
    apis: Apis, traces: Traces, exporter: InMemorySpanExporter
) -> None:
    del apis
    error = InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID, "x: given 1", parameter="x", given=1, allowed=2
    )
    call = Call(api="grpc", method="Free", request_id="r", headers={})
    with ObservedCall(call, traces.observe):
        call.outcome, call.failure = "INVALID_ARGUMENT", error.message
    (span,) = exporter.get_finished_spans()
    assert (span.status.is_ok, span.status.description) == (False, "x: given 1")
    assert dict(span.attributes or {})["opserve.outcome"] == "INVALID_ARGUMENT"


async def test_queue_and_kernel_are_children_of_the_call_with_the_devices_times(
    traces: Traces, exporter: InMemorySpanExporter
) -> None:
    with CLIENT.start_as_current_span("work") as work:
        headers = trace_headers()
    call = Call(api="grpc", method="Execute", request_id="r", headers=headers)

    async def ends_later() -> None:
        await asyncio.sleep(0)
        for entry in ENTRIES:
            traces.observe(WorkEnded("ascend910b-0", "ascend910b", entry))

    with ObservedCall(call, traces.observe):
        later = asyncio.create_task(ends_later())  # as a stream works in the call's context
    await later
    spans = named(exporter.get_finished_spans())
    assert spans.keys() == {"Execute", "queue", "kernel"}
    execute, queue, kernel = (spans[name] for name in ("Execute", "queue", "kernel"))
    assert parent_of(execute) == work.get_span_context().span_id
    assert execute.context is not None
    assert parent_of(queue) == parent_of(kernel) == execute.context.span_id
    assert kernel.start_time is not None
    assert kernel.end_time is not None
    assert kernel.end_time - kernel.start_time == 250_000_000
    assert queue.end_time == kernel.start_time
    assert dict(kernel.attributes or {})["opserve.operator"] == "im2col_backward"


@pytest.mark.parametrize("api", ["grpc", "connect"])
async def test_the_client_sends_its_span_with_every_call(apis: Apis, api: str) -> None:
    parents: list[str] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, CallBegan):
            parents.append(str(observation.call.headers["traceparent"]))

    apis.observers.append(observe)
    http = ConnectionsInMemory(apis.rest)
    transport: AsyncTransport = AsyncConnectTransport("http://localhost", http=http)
    if api == "grpc":
        transport = AsyncGrpcTransport(apis.target)
    with CLIENT.start_as_current_span("work") as work:
        await transport.call(FREE, FreeRequest(session=SESSION, buffer=1), timeout_s=30)
        place = WriteRequest(session=SESSION, buffer=1, size_bytes=3)
        await transport.write(place, memoryview(b"abc"), timeout_s=30)
        range_read = ReadRequest(session=SESSION, buffer=1, size_bytes=3)
        assert [bytes(chunk) async for chunk in transport.read(range_read, timeout_s=30)]
        assert [
            news
            async for news in transport.watch(WATCH_STREAM, WatchStreamRequest(session=SESSION))
        ]
    await transport.close()
    assert len(parents) == 4
    assert all(f"{work.get_span_context().span_id:016x}" in parent for parent in parents)


def test_without_a_span_the_client_sends_nothing() -> None:
    assert trace_headers() == {}


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded() -> None:
    program = """
import sys
from opserve_server import app
assert app._traces() is None
print([name for name in sys.modules if name.startswith("opentelemetry.sdk")])
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=plain, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_collector_that_is_away_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LAST_EXPORT_LIMIT_S", 0.01)
    released = threading.Event()

    class Away(InMemorySpanExporter):
        @override
        def shutdown(self) -> None:
            released.wait()

    Traces(SimpleSpanProcessor(Away())).stop()
    assert not released.is_set(), "it waited for nobody"
    released.set()
