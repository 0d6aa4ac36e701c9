"""Routes of calls that are values: what a path does not name comes from body or query."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import pydantic_core
from starlette.requests import Request
from starlette.responses import Response

from opserve_server.conformance.calls import LONG_LISTS
from opserve_server.rest_api.bodies import JSON, read_json, while_connected
from opserve_server.rest_api.models import derived, parse_query, parsed_values, values_of
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import path_names

_WITH_BODY = frozenset({"POST", "PATCH"})
Run = Callable[[Any], Awaitable[object]]
Answer = Callable[[Request, Any], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ValueRoute:
    """A call, by method and path.

    Attributes:
        method: HTTP method.
        path: With its parameters in braces.
        request: Type of what is asked; it is called with fields known at run time.
        answer: Type of the answer; None where there is nothing to tell.
        name: Of the operation; empty where it is the request's.
        without: Fields of the request that neither path nor body have.
    """

    method: str
    path: str
    request: Any
    answer: type | None
    name: str = ""
    without: tuple[str, ...] = ()

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status of success."""
        if self.answer is None:
            return HTTPStatus.NO_CONTENT
        makes = self.method == "POST" and ":" not in self.path
        return HTTPStatus.CREATED if makes else HTTPStatus.OK

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return self.name or self.request.__name__


def value_operations(routes: Iterable[ValueRoute], run: Run, limit: int) -> Iterator[Operation]:
    """Every route; a body has at most `limit` bytes."""
    for route in routes:
        yield operation_of(route, partial(_answer, run, route), limit)


def operation_of(route: ValueRoute, answer: Answer, limit: int) -> Operation:
    """A route.

    Args:
        route: The route.
        answer: Makes the response, of the HTTP request and of what it asks.
        limit: Of a body, bytes.
    """
    model = derived(
        route.request,
        f"{route.operation}Body",
        without=(*path_names(route.path), *route.without),
    )
    given = model if model.model_fields else None
    has_body = route.method in _WITH_BODY

    async def endpoint(request: Request) -> Response:
        if has_body:
            document = await read_json(request, limit=limit)
            fields = await parsed_values(model, document, LONG_LISTS.get(route.request, ""))
        else:
            fields = values_of(parse_query(model, request))
        asked = route.request(**request.path_params, **fields)
        return await answer(request, asked)

    return Operation(
        method=route.method,
        path=route.path,
        endpoint=endpoint,
        name=route.operation,
        summary=str(route.request.__doc__),
        status=route.status,
        body=given if has_body else None,
        query=None if has_body else given,
        answer=route.answer,
    )


async def _answer(run: Run, route: ValueRoute, request: Request, asked: object) -> Response:
    answer = await while_connected(request, run(asked))
    if route.answer is None:
        return Response(status_code=route.status)
    content = pydantic_core.to_json(answer)
    return Response(content, status_code=route.status, media_type=JSON)
