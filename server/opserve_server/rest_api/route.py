"""Route class of the service: FastAPI declares and documents routes, and this class handles calls.

FastAPI's own handling differs in three ways: it reads bodies of any size, it rejects a missing
field where the core accepts a null pointer, and it answers 422 instead of problem+json.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from http import HTTPStatus
from types import NoneType
from typing import Any, get_type_hints

import pydantic_core
from fastapi._compat import ModelField
from fastapi.datastructures import DefaultPlaceholder
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from opserve_server.open_calls import CallSlot
from opserve_server.rest_api.bodies import JSON, read_json
from opserve_server.rest_api.dependencies import FromBody, Requires, backend_of
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.models import parse, parse_query
from opserve_server.rest_api.response_models import documented

_GUARDED = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Statuses of errors of any call that requires a scope."""


class ServiceRoute(APIRoute):
    """A route with a bounded body and the service's own errors.

    Attributes:
        requires: The scope that its caller must have.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  # FastAPI's
        summary, _, _ = (endpoint.__doc__ or "").partition("\n")
        answer = options["response_model"]
        if isinstance(answer, DefaultPlaceholder):
            answer = get_type_hints(endpoint).get("return")
        options |= {
            "operation_id": options["name"],
            "response_model": documented(answer) if _is_value(answer) else None,
            "summary": options["summary"] or summary,
        }
        super().__init__(path, endpoint, **options)
        (self.requires,) = [
            one.dependency for one in self.dependencies if isinstance(one.dependency, Requires)
        ]
        self.responses = problems(*_refusals_of(self)) | self.responses

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        dependant, status = self.dependant, self.status_code or HTTPStatus.OK
        read = None if self.body_field is None else _reader_of(dependant, self.body_field)

        async def handle(request: Request) -> Response:
            body = None
            if read is not None:
                body = await read(await _document_of(request))
            answer = await self.endpoint(**_arguments(dependant, request, body))
            return answer if isinstance(answer, Response) else answer_of(answer, status)

        return handle


async def _document_of(request: Request) -> bytes:
    """The JSON body; charged as the largest allowed one while it arrives, then by its size."""
    slot: CallSlot = request.state.slot
    limit = backend_of(request).body_bytes_limit
    document = await slot.received(lambda: read_json(request, limit=limit))
    slot.keep(len(document))
    return document


def _is_value(answer: object) -> bool:
    """Whether the type of an answer is a dataclass or model, which is documented."""
    return not (isinstance(answer, type) and issubclass(answer, Response | NoneType))


def answer_of(value: object, status: int) -> Response:
    """The answer with a value, or without one."""
    if status == HTTPStatus.NO_CONTENT:
        return Response(status_code=status)
    return Response(pydantic_core.to_json(value), status, media_type=JSON)


def _arguments(dependant: Dependant, request: Request, body: object) -> dict[str, Any]:
    """The arguments of an endpoint or a dependency; dependencies are plain functions."""
    values: dict[str, Any] = {
        one.name: one.call(**_arguments(one, request, body))
        for one in dependant.dependencies
        if one.name is not None and one.call is not None
    }
    for field in dependant.path_params:
        values[field.name] = request.path_params[field.name]
    for field in dependant.query_params:
        values[field.name] = parse_query(_model_of(field), request)
    for field in dependant.header_params:
        values[field.name] = request.headers.get(field.alias, field.default)
    for field in dependant.body_params:
        values[field.name] = body
    if dependant.request_param_name is not None:
        values[dependant.request_param_name] = request
    return values


def _reader_of(dependant: Dependant, field: ModelField) -> Callable[[bytes], Awaitable[object]]:
    """The parser of the body: that of its dependency, or of its model."""
    for one in dependant.dependencies:
        if isinstance(one.call, FromBody):
            return one.call.read
    model = _model_of(field)

    async def read(document: bytes) -> BaseModel:
        return parse(model, document)

    return read


def _model_of(field: ModelField) -> type[BaseModel]:
    model = field.field_info.annotation
    assert isinstance(model, type), "bodies and queries have models"
    assert issubclass(model, BaseModel), "bodies and queries have models"
    return model


def _refusals_of(route: ServiceRoute) -> Iterator[int]:
    """Statuses of errors that follow from a route's requirements and parameters."""
    if route.requires.scope is not None:
        yield from _GUARDED
    if get_flat_params(route.dependant) or route.body_field is not None:
        yield HTTPStatus.BAD_REQUEST
    if route.body_field is not None:
        yield HTTPStatus.REQUEST_ENTITY_TOO_LARGE
