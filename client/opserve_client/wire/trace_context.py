"""The W3C context of the span that is active in this program, for the service to go on with."""

import sys


def trace_headers() -> dict[str, str]:
    """Headers that carry it; none where no part of the program uses OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return {}  # no span can be active, and importing it would cost every program its time
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
