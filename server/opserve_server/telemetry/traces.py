"""OpenTelemetry spans of calls, and of the queue and kernel times of their work.

Imported only where traces are exported: opentelemetry is the extra `otel`.
"""

import threading
import time
from itertools import pairwise
from typing import assert_never

from opentelemetry import context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opserve_server.core.history import Outcome, WorkKind
from opserve_server.core.observations import (
    Call,
    CallBegan,
    CallEnded,
    CopyEnded,
    Observation,
    WorkEnded,
)

LAST_EXPORT_LIMIT_S = 2.0
"""Seconds for the collector to receive the last spans when the service ends."""
_NS_PER_S = 1e9
_W3C = TraceContextTextMapPropagator()


def exported_traces() -> "Traces":
    """Traces for the endpoint in OpenTelemetry's own environment variables."""
    return Traces(BatchSpanProcessor(OTLPSpanExporter()))


class Traces:
    """Makes spans from observations.

    Args:
        processor: Receives ended spans.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create({"service.name": "opserve"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("opserve")
        self._at_work: dict[Call, tuple[Span, object]] = {}

    def observe(self, observation: Observation) -> None:
        """Begins or ends spans."""
        match observation:
            case CallBegan(call):
                self._begin(call)
            case CallEnded(call):
                self._end(call)
            case WorkEnded():
                self._add_work(observation)
            case CopyEnded():
                pass
            case _:
                assert_never(observation)

    def stop(self) -> None:
        """Exports the remaining spans, as far as the collector accepts them in time."""
        # The exporter retries for many seconds, even when it is being stopped.
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_EXPORT_LIMIT_S)

    def _begin(self, call: Call) -> None:
        """Begins a span, current from here on: work that the call submits inherits it."""
        parent = _W3C.extract(call.headers)
        span = self._tracer.start_span(call.method, context=parent, kind=SpanKind.SERVER)
        self._at_work[call] = span, context.attach(set_span_in_context(span))

    def _end(self, call: Call) -> None:
        span, token = self._at_work.pop(call)
        context.detach(token)  # type: ignore[arg-type]  # the token of attach
        span.update_name(call.method)
        attributes = {
            "opserve.api": call.api,
            "opserve.request_id": call.request_id,
            "opserve.session": call.session,
            "opserve.device": call.device,
            "opserve.operator": call.operator,
            "opserve.outcome": call.outcome,
        }
        span.set_attributes({name: value for name, value in attributes.items() if value})
        if call.failure:
            span.set_status(StatusCode.ERROR, call.failure)
        span.end()

    def _add_work(self, ended: WorkEnded) -> None:
        """The spans of a completed call, below the span of the call that submitted it."""
        entry = ended.entry
        if entry.kind is not WorkKind.EXECUTE:
            return
        attributes = {
            "opserve.device": ended.device,
            "opserve.profile": ended.profile,
            "opserve.operator": entry.operator,
            "opserve.outcome": entry.outcome.value,
        }
        epoch_ns = time.time_ns() - time.monotonic_ns()
        moments = {"queue": entry.queued_s, "kernel": entry.started_s, "": entry.ended_s}
        times = [(n, epoch_ns + round(s * _NS_PER_S)) for n, s in moments.items() if s is not None]
        for (name, start_ns), (_, end_ns) in pairwise(times):
            span = self._tracer.start_span(name, start_time=start_ns, attributes=attributes)
            if entry.outcome is not Outcome.DONE:
                span.set_status(StatusCode.ERROR)
            span.end(end_ns)
