"""make grafana: writes docs/grafana/opserve.json, a dashboard of the service's metrics.

python -m tools.grafana           writes it
python -m tools.grafana --check   writes nothing; exit status 1 if it is not fresh
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parent.parent / "docs" / "grafana" / "opserve.json"
SCHEMA_VERSION = 39
"""That of Grafana 10 and 11."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8
_RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel.

    Attributes:
        title: Its title.
        queries: Expressions by legend.
        unit: Unit of its values, by Grafana's name.
        kind: Its type.
    """

    title: str
    queries: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"


def _quantiles(metric: str, by: str) -> Mapping[str, str]:
    return {
        f"{name} {{{{{by}}}}}": f"histogram_quantile({share}, "
        f"sum by (le, {by}) (rate({metric}_bucket{_RATE})))"
        for name, share in (("median", 0.5), ("p99", 0.99))
    }


_DEVICE, _PROFILE, _TENANT = (f'{{{name}=~"${name}"}}' for name in ("device", "profile", "tenant"))
ROWS: Mapping[str, Sequence[Panel]] = {
    "Devices": (
        Panel(
            title="Ready",
            queries={"{{device}}": f"opserve_device_ready{_DEVICE}"},
            kind="stat",
        ),
        Panel(
            title="Busy share",
            queries={"{{device}}": f"rate(opserve_device_busy_seconds_total{_DEVICE}{_RATE})"},
            unit="percentunit",
        ),
        Panel(title="Sessions", queries={"{{device}}": f"opserve_sessions{_DEVICE}"}),
        Panel(
            title="Memory",
            queries={
                "{{device}} used": f"opserve_memory_used_bytes{_DEVICE}",
                "{{device}} free": f"opserve_memory_free_bytes{_DEVICE}",
            },
            unit="bytes",
        ),
        Panel(
            title="Queued entries",
            queries={"{{device}}": f"opserve_stream_entries_waiting{_DEVICE}"},
        ),
        Panel(
            title="Worker restarts in an hour",
            queries={"{{device}}": f"increase(opserve_worker_restarts_total{_DEVICE}[1h])"},
        ),
    ),
    "Queue": (
        Panel(
            title="Waiting session requests",
            queries={"{{profile}}": f"opserve_waiting_requests{_PROFILE}"},
        ),
        Panel(
            title="Longest wait",
            queries={"{{profile}}": f"opserve_longest_wait_seconds{_PROFILE}"},
            unit="s",
        ),
    ),
    "Kernels": (
        Panel(
            title="Calls by outcome",
            queries={
                "{{operator}} {{outcome}}": "sum by (operator, outcome) "
                f"(rate(opserve_kernels_total{_PROFILE}{_RATE}))"
            },
            unit="ops",
        ),
        Panel(
            title="Computation", queries=_quantiles("opserve_kernel_seconds", "operator"), unit="s"
        ),
        Panel(
            title="From Execute to the kernel",
            queries=_quantiles("opserve_queue_seconds", "operator"),
            unit="s",
        ),
        Panel(title="Copies", queries=_quantiles("opserve_copy_seconds", "kind"), unit="s"),
    ),
    "Tenants": (
        Panel(
            title="Use of the quota",
            queries={
                "{{tenant}} {{resource}}": f"opserve_tenant_use{_TENANT} "
                f"/ on (tenant, resource) opserve_tenant_limit{_TENANT}"
            },
            unit="percentunit",
        ),
        Panel(
            title="Device time of today",
            queries={
                "{{tenant}}": 'opserve_tenant_use{tenant=~"$tenant",'
                'resource="device_seconds_per_day"}'
            },
            unit="s",
        ),
        Panel(
            title="Rejected by the quota",
            queries={
                "{{tenant}} {{resource}}": f"rate(opserve_tenant_refusals_total{_TENANT}{_RATE})"
            },
            unit="ops",
        ),
    ),
    "Service": (
        Panel(
            title="Calls",
            queries={
                "{{api}} {{method}}": f"sum by (api, method) (rate(opserve_calls_total{_RATE}))"
            },
            unit="ops",
        ),
        Panel(
            title="Outcomes",
            queries={
                "{{api}} {{outcome}}": f"sum by (api, outcome) (rate(opserve_calls_total{_RATE}))"
            },
            unit="ops",
        ),
        Panel(title="Time of calls", queries=_quantiles("opserve_call_seconds", "api"), unit="s"),
        Panel(
            title="Bytes",
            queries={
                "{{direction}} {{transport}}": "sum by (direction, transport) "
                f"(rate(opserve_copied_bytes_total{_RATE}))"
            },
            unit="Bps",
        ),
        Panel(title="Open watches", queries={"watches": "opserve_watches"}),
        Panel(
            title="Store and audit, failures in an hour",
            queries={
                "store": "increase(opserve_store_failures_total[1h])",
                "audit": "increase(opserve_audit_dropped_total[1h])",
            },
        ),
    ),
}
_VARIABLES = {
    "device": "opserve_device_ready",
    "profile": "opserve_waiting_requests",
    "tenant": "opserve_tenant_use",
}
"""Metrics whose labels are the choices of each variable."""


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "id": None,
        "uid": "opserve",
        "title": "opserve",
        "tags": ["opserve"],
        "timezone": "browser",
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), *map(_variable, _VARIABLES)]},
        "panels": list(_panels()),
    }


def expressions() -> list[str]:
    """The expression of every query."""
    return [
        expression
        for panels in ROWS.values()
        for panel in panels
        for expression in panel.queries.values()
    ]


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(name: str) -> dict[str, Any]:
    query = f"label_values({_VARIABLES[name]}, {name})"
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for title, panels in ROWS.items():
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        made.append(
            {"id": len(made) + 1, "type": "row", "title": title, "gridPos": place, "panels": []}
        )
        top += 1
        for start in range(0, len(panels), 3):
            line = panels[start : start + 3]
            width = _COLUMNS // len(line)
            for column, panel in enumerate(line):
                place = {"x": column * width, "y": top, "w": width, "h": _HEIGHT}
                made.append(_panel(panel, number=len(made) + 1, place=place))
            top += _HEIGHT
    return made


def _panel(panel: Panel, *, number: int, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend}
            for place, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def main(arguments: Sequence[str]) -> int:
    """Writes the dashboard, or checks it; returns the exit status."""
    text = json.dumps(dashboard(), indent=2) + "\n"
    if "--check" not in arguments:
        DASHBOARD.write_text(text)
    elif DASHBOARD.read_text() != text:
        print(f"{DASHBOARD} is not fresh: run make grafana", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
