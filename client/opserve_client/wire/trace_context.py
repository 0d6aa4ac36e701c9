"""The W3C trace context of the active span, so that spans of the service join its trace."""

import sys


def trace_headers() -> dict[str, str]:
    """Returns the headers with the context; none in a program without OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return {}  # no span can be active, and the import would slow down every program
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
