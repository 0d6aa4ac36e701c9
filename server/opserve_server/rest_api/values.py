"""Routes of calls that are values: what a path does not name comes from body or query."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pydantic_core
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from opserve_server.rest_api.bodies import JSON, read_json
from opserve_server.rest_api.models import derived, parse, parse_query, values_of
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import Endpoint, path_names

_WITH_BODY = frozenset({"POST", "PATCH"})
Run = Callable[[Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class ValueRoute:
    """A call, by method and path.

    Attributes:
        method: HTTP method.
        path: With its parameters in braces.
        request: Type of what is asked; it is called with fields known at run time.
        answer: Type of the answer; None where there is nothing to tell.
    """

    method: str
    path: str
    request: Any
    answer: type | None

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of success."""
        if self.answer is None:
            return HTTPStatus.NO_CONTENT
        makes = self.method == "POST" and ":" not in self.path
        return HTTPStatus.CREATED if makes else HTTPStatus.OK


def value_operations(routes: Iterable[ValueRoute], run: Run, limit: int) -> Iterator[Operation]:
    """Every route; a body has at most `limit` bytes."""
    for route in routes:
        name = route.request.__name__
        model = derived(route.request, f"{name}Body", without=path_names(route.path))
        given = model if model.model_fields else None
        has_body = route.method in _WITH_BODY
        yield Operation(
            method=route.method,
            path=route.path,
            endpoint=_endpoint(run, route, model, limit=limit),
            name=name,
            summary=str(route.request.__doc__),
            status=route.status,
            body=given if has_body else None,
            query=None if has_body else given,
            answer=route.answer,
        )


def _endpoint(run: Run, route: ValueRoute, model: type[BaseModel], *, limit: int) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if route.method in _WITH_BODY:
            given = parse(model, await read_json(request, limit=limit))
        else:
            given = parse_query(model, request)
        answer = await run(route.request(**request.path_params, **values_of(given)))
        if route.answer is None:
            return Response(status_code=route.status)
        content = pydantic_core.to_json(answer)
        return Response(content, status_code=route.status, media_type=JSON)

    return endpoint
