"""The service itself: devices, usage, probes, metrics, and the document with its page."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path as File

from fastapi import APIRouter
from starlette.responses import FileResponse, JSONResponse, Response

from opserve_server.core.commands import SCOPE
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.info import DeviceInfo, Usage, ready_profiles
from opserve_server.core.principal import ITSELF, Scope
from opserve_server.rest_api.bodies import JSON
from opserve_server.rest_api.dependencies import Behind, Caller, Core, requires
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.version import VERSION

_METRICS = "text/plain; version=1.0.0; charset=utf-8"
_PAGE = File(__file__).resolve().parent.parent / "docs_page"
_PAGE_FILES: Mapping[str, str] = {
    "init.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
"""Media types of the files of the page."""
_PAGE_HEADERS: Mapping[str, str] = {"Content-Security-Policy": "default-src 'self'"}

router = APIRouter(tags=["service"], route_class=ServiceRoute, dependencies=[requires(SCOPE)])
open_router = APIRouter(
    route_class=ServiceRoute, dependencies=[requires(None)], include_in_schema=False
)
"""Routes that need no key."""
metrics_router = APIRouter(
    route_class=ServiceRoute, dependencies=[requires(Scope.METRICS)], include_in_schema=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of the service.

    Attributes:
        devices: The devices.
        version: Version of the service, such as "1.4.2".
    """

    devices: list[DeviceInfo]
    version: str = VERSION


@router.get("/v1/devices", name="listDevices")
async def list_devices(service: Core, principal: Caller) -> Devices:
    """Lists the devices of this service, and of the others of its farm."""
    return Devices(devices=service.list_farm(principal))


@router.get("/v1/usage", name="getUsage")
async def get_usage(service: Core, principal: Caller) -> Usage:
    """Returns current use and limits of the caller's tenant."""
    return service.usage(principal)


@open_router.get("/livez", name="livez")
async def livez() -> Response:
    """Returns whether the process serves calls."""
    return JSONResponse({"live": True})


@open_router.get("/readyz", name="readyz")
async def readyz(backend: Behind) -> Response:
    """Returns whether every profile has a device that is ready."""
    profiles = ready_profiles(backend.service.list_devices(ITSELF))
    ready = backend.accepts() and all(profiles.values())
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    drains = not backend.accepts()
    return JSONResponse({"ready": ready, "drains": drains, "profiles": profiles}, status)


@open_router.get("/openapi.json", name="openapi")
async def openapi(backend: Behind) -> Response:
    """Returns the document of the REST API."""
    return Response(await asyncio.to_thread(backend.document), media_type=JSON)


@open_router.get("/docs", name="docs")
async def docs() -> Response:
    """Returns a page that shows the document, without requests to other hosts."""
    return FileResponse(_PAGE / "index.html", headers=_PAGE_HEADERS, media_type="text/html")


@open_router.get("/docs/{file}", name="docsFile")
async def docs_file(file: str) -> Response:
    """Returns a file of the page."""
    if file not in _PAGE_FILES:
        raise HandleNotFound("file", file[:64], allowed=", ".join(_PAGE_FILES))
    return FileResponse(_PAGE / file, headers=_PAGE_HEADERS, media_type=_PAGE_FILES[file])


@metrics_router.get("/metrics", name="metrics")
async def metrics(backend: Behind) -> Response:
    """Returns the metrics in Prometheus' text format."""
    return Response(backend.metrics_page(), media_type=_METRICS)
