"""Public names of metrics, log lines and spans."""

import json
import logging

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opserve_server.core.history import HistoryEntry, Outcome, WorkKind
from opserve_server.core.observations import CALL, Call, CallBegan, CallEnded, WorkEnded
from opserve_server.telemetry.families import FAMILIES, sample_name
from opserve_server.telemetry.logs import JsonLines
from opserve_server.telemetry.traces import Traces

_ENTRY = HistoryEntry(
    sequence=1,
    number=1,
    kind=WorkKind.EXECUTE,
    handle=1,
    operator="operator",
    queued_s=1.0,
    started_s=2.0,
    ended_s=3.0,
    kernel_s=1.0,
    outcome=Outcome.DONE,
    status=None,
)


def _call() -> Call:
    return Call(
        api="api",
        method="Method",
        request_id="id",
        headers={},
        session="session",
        device="device",
        operator="operator",
        outcome="OK",
    )


def metrics() -> dict[str, tuple[str, ...]]:
    """Labels by the name of the sample."""
    return {sample_name(name): family.labels for name, family in FAMILIES.items()}


def log_members() -> list[str]:
    """Members of the line of a call, with a traceback."""
    error = (ValueError, ValueError(), None)
    record = logging.makeLogRecord({"exc_info": error})
    token = CALL.set(_call())
    line = JsonLines().format(record)
    CALL.reset(token)
    return list(json.loads(line))


def spans() -> dict[str, tuple[str, ...]]:
    """Attributes of the spans of a call, by the name of the span; a call's is its method."""
    exporter, call = InMemorySpanExporter(), _call()
    traces = Traces(SimpleSpanProcessor(exporter))
    work = WorkEnded("device", "profile", _ENTRY)
    for observation in (CallBegan(call), work, CallEnded(call, 1.0)):
        traces.observe(observation)
    return {span.name: tuple(span.attributes or ()) for span in exporter.get_finished_spans()}
