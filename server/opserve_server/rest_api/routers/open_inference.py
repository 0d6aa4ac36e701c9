"""The Open Inference Protocol: operators as models, as stock clients of Triton call them."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from opserve_server.core.commands import SCOPE
from opserve_server.inference.descriptions import (
    ModelConfig,
    ModelIndex,
    ModelMetadata,
    ServerMetadata,
    StatisticsAnswer,
    config_of,
    index_of,
    is_ready,
    metadata_of,
    statistics_of,
)
from opserve_server.inference.models import Model, model_named
from opserve_server.inference.unsupported import not_supported
from opserve_server.rest_api.dependencies import Behind, Caller, Core, requires
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.models import DOCUMENTED
from opserve_server.rest_api.open_inference import (
    InferRequest,
    InferResponse,
    content_of,
    infer_over_http,
)
from opserve_server.rest_api.route import ServiceRoute

ModelName = Annotated[str, Path(description="Name of the model.")]
Endpoint = Callable[..., Any]
router = APIRouter(
    tags=["open_inference"], route_class=ServiceRoute, dependencies=[requires(SCOPE)]
)
_MEMORY: Mapping[str, tuple[str, ...]] = {
    "Status": ("GET status", "GET region/{region}/status"),
    "Register": ("POST region/{region}/register",),
    "Unregister": ("POST unregister", "POST region/{region}/unregister"),
}
_UNSUPPORTED: Mapping[str, tuple[str, ...]] = {
    "RepositoryModelLoad": ("POST /v2/repository/models/{model}/load",),
    "RepositoryModelUnload": ("POST /v2/repository/models/{model}/unload",),
    "TraceSetting": (
        *("GET /v2/trace/setting", "POST /v2/trace/setting"),
        *("GET /v2/models/{model}/trace/setting", "POST /v2/models/{model}/trace/setting"),
    ),
    "LogSettings": ("GET /v2/logging", "POST /v2/logging"),
    "Generate": (
        *("POST /v2/models/{model}/generate", "POST /v2/models/{model}/generate_stream"),
        "POST /v2/models/{model}/versions/{version}/generate",
        "POST /v2/models/{model}/versions/{version}/generate_stream",
    ),
    **{
        f"{kind}SharedMemory{name}": tuple(
            route.replace(" ", f" /v2/{kind.lower()}sharedmemory/") for route in routes
        )
        for kind in ("System", "Cuda")
        for name, routes in _MEMORY.items()
    },
}
"""Routes of what opserve does not have, by their names over gRPC."""


class RepositoryIndexBody(BaseModel):
    """Selection of models."""

    model_config = DOCUMENTED

    ready: bool = False
    """Whether only models that are ready are listed."""


_EVERY_MODEL = RepositoryIndexBody()


def _model_in_path(request: Request, model: ModelName) -> Model:
    return model_named(model, request.path_params.get("version", ""))


NamedModel = Annotated[Model, Depends(_model_in_path)]


def _of_model(
    verb: str,
    path: str,
    *,
    name: str,
    **options: Any,  # noqa: ANN401  # FastAPI's
) -> Callable[[Endpoint], Endpoint]:
    """Declares a route of a model twice: without a version, which is the only one, and with it."""

    def declare(endpoint: Endpoint) -> Endpoint:
        options.setdefault("responses", problems(404))
        for version, versioned in (("", ""), ("/versions/{version}", "OfVersion")):
            router.add_api_route(
                f"/v2/models/{{model}}{version}{path}",
                endpoint,
                methods=[verb],
                name=f"{name}{versioned}",
                include_in_schema=not version,
                **options,
            )
        return endpoint

    return declare


@router.get("/v2", name="serverMetadata")
async def server_metadata() -> ServerMetadata:
    """Returns the name and version of the service, and the extensions that it has."""
    return ServerMetadata()


@router.get("/v2/health/live", name="serverLive", response_class=Response)
async def server_live() -> Response:
    """Answers 200: the service is live."""
    return Response()


@router.get("/v2/health/ready", name="serverReady", response_class=Response)
async def server_ready(service: Core, principal: Caller) -> Response:
    """Answers 200 where a device is ready, otherwise 503."""
    return _probed(ready=is_ready(service, principal))


@router.get("/v2/models/stats", name="statistics")
async def all_statistics(backend: Behind, principal: Caller) -> StatisticsAnswer:
    """Returns counts and durations of the tenant's calls of every model."""
    return statistics_of(backend.inference, principal)


@router.post("/v2/repository/index", name="repositoryIndex")
async def repository_index(
    service: Core, principal: Caller, body: RepositoryIndexBody = _EVERY_MODEL
) -> list[ModelIndex]:
    """Lists the models."""
    return list(index_of(service, principal, ready_only=body.ready))


@_of_model("GET", "", name="modelMetadata")
async def model_metadata(model: NamedModel) -> ModelMetadata:
    """Returns the inputs and outputs of a model."""
    return metadata_of(model)


@_of_model("GET", "/config", name="modelConfig")
async def model_config(model: NamedModel) -> ModelConfig:
    """Returns the configuration of a model."""
    return config_of(model)


@_of_model("GET", "/ready", name="modelReady", response_class=Response)
async def model_ready(service: Core, principal: Caller, model: NamedModel) -> Response:
    """Answers 200 where a device that has the model is ready, otherwise 503."""
    return _probed(ready=is_ready(service, principal, model))


@_of_model("GET", "/stats", name="modelStatistics")
async def model_statistics(
    backend: Behind, principal: Caller, model: NamedModel
) -> StatisticsAnswer:
    """Returns counts and durations of the tenant's calls of a model."""
    return statistics_of(backend.inference, principal, model.name, model.version)


@_of_model(
    "POST",
    "/infer",
    name="modelInfer",
    response_class=Response,
    responses=problems(400, 404, 409, 413, 501, 504, 507) | {200: content_of(InferResponse)},
    openapi_extra={"requestBody": content_of(InferRequest)},
)
async def model_infer(request: Request, backend: Behind, model: NamedModel) -> Response:
    """Calls a model; tensors may be binary data behind the document."""
    limit = backend.body_bytes_limit
    return await infer_over_http(backend.inference, model, request, limit=limit)


def _probed(*, ready: bool) -> Response:
    return Response(status_code=HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)


def _refuse(name: str, route: str) -> None:
    verb, path = route.split()

    @router.api_route(
        path, methods=[verb], name=f"{name[0].lower()}{name[1:]}", include_in_schema=False
    )
    async def refuse() -> None:
        """What opserve does not have."""
        raise not_supported(name)


for _name, _routes in _UNSUPPORTED.items():
    for _route in _routes:
        _refuse(_name, _route)
