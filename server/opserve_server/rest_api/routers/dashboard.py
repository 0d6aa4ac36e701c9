"""The dashboard's files, which need no key: all that they show comes from calls that do."""

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from opserve_server.core.errors import HandleNotFound
from opserve_server.dashboard.files import INDEX, static_files
from opserve_server.rest_api.dependencies import requires
from opserve_server.rest_api.route import ServiceRoute

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
_HOME = "/dashboard/"

router = APIRouter(route_class=ServiceRoute, dependencies=[requires(None)], include_in_schema=False)


@router.get("/", name="root")
@router.get(_HOME.rstrip("/"), name="dashboardRoot")
async def root() -> Response:
    """Redirects to the dashboard."""
    return RedirectResponse(_HOME)


@router.get(_HOME, name="dashboard")
async def dashboard(request: Request) -> Response:
    """Returns the page."""
    return _answer(request, INDEX)


@router.get(f"{_HOME}{{file}}", name="dashboardFile")
async def dashboard_file(request: Request, file: str) -> Response:
    """Returns a file of the page."""
    return _answer(request, file)


@router.get(f"{_HOME}{{folder}}/{{file}}", name="dashboardSharedFile")
async def dashboard_shared_file(request: Request, folder: str, file: str) -> Response:
    """Returns a file of another project, or one that the conformance report has, too."""
    return _answer(request, f"{folder}/{file}")


def _answer(request: Request, path: str) -> Response:
    found = static_files().get(path)
    if found is None:
        raise HandleNotFound("file", path[:64], allowed="a file that /dashboard/ loads")
    headers = {**HEADERS, "ETag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(found.packed, headers=headers, media_type=found.media_type)
    return Response(found.body, headers=headers, media_type=found.media_type)
