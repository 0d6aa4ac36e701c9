"""State of the service: its changes as server-sent events, and its latest ten minutes."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from opserve_server.core.commands import SCOPE
from opserve_server.core.history import NoNews
from opserve_server.core.series import SeriesPoints
from opserve_server.core.watches import Change
from opserve_server.rest_api.dependencies import Caller, Core, requires
from opserve_server.rest_api.models import DOCUMENTED
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.rest_api.server_sent_events import EVENT_STREAM, SIGN_OF_LIFE, event, streamed

router = APIRouter(tags=["watches"], route_class=ServiceRoute, dependencies=[requires(SCOPE)])


class SeriesQuery(BaseModel):
    """Series, and seconds of the past."""

    model_config = DOCUMENTED

    name: str = ""
    """Names of series, separated by commas; empty: all that the caller may read."""
    last_s: int = 0
    """Seconds of the past, up to 600; 0: 300."""


@router.get(
    "/v1/watch",
    name="watch",
    response_class=StreamingResponse,
    responses={200: {"content": {EVENT_STREAM: {"schema": {"type": "object"}}}}},
)
async def watch(service: Core, principal: Caller) -> StreamingResponse:
    """Returns what the caller may see of the service, then its changes, at most once a second."""
    watching = service.watch(principal)
    first = await anext(watching)  # raises the error of a watch too many, before the answer begins
    return streamed(_events_of(watching), head=_event(first))


@router.get("/v1/series", name="getSeries")
async def get_series(
    service: Core, principal: Caller, query: Annotated[SeriesQuery, Query()]
) -> SeriesPoints:
    """Returns the latest points of series."""
    return service.get_series(principal, query.name, last_s=query.last_s)


async def _events_of(watching: AsyncGenerator[Change | NoNews]) -> AsyncGenerator[bytes]:
    async with aclosing(watching):
        async for news in watching:
            yield _event(news)


def _event(news: Change | NoNews) -> bytes:
    if isinstance(news, NoNews):
        return SIGN_OF_LIFE
    return event("change", news.id, news.data.encode())
