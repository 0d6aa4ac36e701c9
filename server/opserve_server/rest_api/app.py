"""The REST API: a FastAPI application of the routers, behind one middleware."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from opserve_server.administration import Administration
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.fair_slots import FairSlots
from opserve_server.core.service import Service
from opserve_server.dashboard.files import static_files
from opserve_server.guard import Guard
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.dependencies import Backend
from opserve_server.rest_api.endpoints import NO_RPCS, Rpc
from opserve_server.rest_api.errors import Problem
from opserve_server.rest_api.middleware import CallMiddleware, service_routes
from opserve_server.rest_api.models import RUN_BODIES
from opserve_server.rest_api.one_shot import RunLimits
from opserve_server.rest_api.open_inference import FORMS
from opserve_server.rest_api.routers import (
    admin,
    conformance,
    dashboard,
    events,
    executors,
    memory,
    open_inference,
    operators,
    service,
    sessions,
    streams,
    watches,
)

_ROUTERS = (
    service.open_router,
    dashboard.router,
    service.metrics_router,
    service.router,
    sessions.router,
    memory.router,
    operators.router,
    open_inference.router,
    executors.router,
    streams.router,
    events.router,
    watches.router,
    conformance.router,
    admin.router,
)
ROUTES = tuple(service_routes(_ROUTERS))
"""All routes of the service."""
_TAGS = {
    module.__name__.rpartition(".")[2]: (module.__doc__ or "").strip()
    for module in (
        *(sessions, memory, operators, executors, streams, events),
        *(open_inference, watches, conformance, admin, service),
    )
}
_DESCRIPTION = (
    "Convolution operators on virtual devices, in two phases or in one call. "
    "Every call may have an id of its own, X-Request-Id, which its answer and the logs repeat."
)
_SECURITY_SCHEMES: dict[str, Any] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or the ID token of a CI job. A service without keys requires "
        "none.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate that the service lists.",
    },
}


_FASTAPI_REFUSALS = ("HTTPValidationError", "ValidationError")
"""Schemas of answers with 422, which no route returns."""


class RestApi(FastAPI):
    """The application; completes FastAPI's OpenAPI document.

    Attributes:
        calls: Serves every request.
    """

    calls: CallMiddleware

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request without FastAPI's own layers, none of which has a task here."""
        scope["app"] = self
        await self.calls(scope, receive, send)

    @override
    def openapi(self) -> dict[str, Any]:
        """The document, built once."""
        if self.openapi_schema is None:
            _complete(super().openapi())
        return super().openapi()

    @cached_property
    def document(self) -> bytes:
        """The document as JSON; building it takes half a second."""
        return json.dumps(self.openapi()).encode()


def _complete(document: dict[str, Any]) -> None:
    models: list[type[BaseModel]] = [Problem, *RUN_BODIES.values(), *FORMS, *conformance.FORMS]
    _, described = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    schemas = described["$defs"] | document["components"]["schemas"]
    for name in _FASTAPI_REFUSALS:
        del schemas[name]
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    document["components"] = {"schemas": schemas, "securitySchemes": _SECURITY_SCHEMES}
    document["security"] = [{name: []} for name in _SECURITY_SCHEMES]


def rest_app(  # noqa: PLR0913  # each by its name
    service: Service,
    guard: Guard,
    administration: Administration,
    conformance: Conformance,
    *,
    inference: Inference,
    accepts: Callable[[], bool],
    metrics_page: Callable[[], bytes],
    body_bytes_limit: int,
    run_limits: RunLimits,
    rpcs: Mapping[str, Rpc] = NO_RPCS,
) -> RestApi:
    """The application.

    Args:
        service: The core.
        guard: Authenticates and admits callers.
        administration: The administration calls.
        conformance: The conformance calls.
        inference: Calls of models.
        accepts: Whether the service accepts calls, or is about to end.
        metrics_page: The metrics in Prometheus' text format.
        body_bytes_limit: Maximum size of a JSON body, bytes.
        run_limits: Bounds on one-shot calls.
        rpcs: RPCs of the Connect API by path.
    """
    static_files()  # read before the first call
    app = declared_api()
    app.state.backend = Backend(
        service=service,
        administration=administration,
        conformance=conformance,
        inference=inference,
        accepts=accepts,
        metrics_page=metrics_page,
        document=lambda: app.document,
        body_bytes_limit=body_bytes_limit,
        run_limits=run_limits,
        run_slots=FairSlots(run_limits.concurrent_runs, waiting_limit=run_limits.waiting_runs),
    )
    app.calls = CallMiddleware(routes=ROUTES, rpcs=rpcs, guard=guard, observe=service.observe)
    return app


def declared_api() -> RestApi:
    """The routes and their document, without a service."""
    app = RestApi(
        title="opserve",
        version="1",
        description=_DESCRIPTION,
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        openapi_url=None,  # the routers serve it, and the page
        telemetry={"tracing": False, "metrics": False, "logs": False},  # those of telemetry/ are
    )
    for router in _ROUTERS:
        app.include_router(router)
    return app
