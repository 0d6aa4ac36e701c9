"""What /openapi.json says of each route: parameters, bodies, answers and refusals with schemas."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from opserve_server.rest_api.bodies import JSON, MULTIPART, OCTETS
from opserve_server.rest_api.errors import ERRORS, PROBLEM_JSON, Problem
from opserve_server.rest_api.routes import Endpoint, path_names

Schema = dict[str, Any]
_REFERENCE = "#/components/schemas/{model}"
_HANDLE: Schema = {"type": "integer", "minimum": 0}
TEXTS = frozenset(
    {"case", "id", "key", "name", "operator", "run", "session", "suite", "tenant"},
)
"""Parameters of paths that are texts; all others are handles."""
_NAME: Schema = {"type": "string"}
_BYTES: Schema = {"type": "string", "format": "binary"}
_SECURITY_SCHEMES: Schema = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key; a service without keys asks for none.",
    },
    "certificate": {"type": "mutualTLS", "description": "A client certificate it knows."},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A route, and what the document says of it.

    Attributes:
        method: HTTP method.
        path: With its parameters in braces.
        endpoint: What answers.
        name: Name of the operation, unique in the document.
        summary: One line on what it does.
        status: The HTTP status of success.
        body: Model of the JSON body, or of the `args` part; None where there is none.
        query: Model of the query, or None.
        headers: Names of further request headers that count.
        takes: Media type of the body.
        answer: Type of the answer; bytes for a stream of bytes, None for none.
        gives: Media type of the answer, where it is no stream of bytes.
        accepted: Type of the answer 202, to a request that waits; None where none does.
    """

    method: str
    path: str
    endpoint: Endpoint
    name: str
    summary: str
    status: HTTPStatus = HTTPStatus.OK
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: tuple[str, ...] = ()
    takes: str = JSON
    answer: Any = None
    gives: str = JSON
    accepted: Any = None


_PAGE = """<!doctype html>
<title>opserve</title>
<link rel="stylesheet" href="https://cdn.jsdelivr.net/npm/swagger-ui-dist@5/swagger-ui.css">
<div id="page"></div>
<script src="https://cdn.jsdelivr.net/npm/swagger-ui-dist@5/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({ url: "/openapi.json", dom_id: "#page" })</script>
"""


def document_routes(operations: Iterable[Operation]) -> Iterator[Route]:
    """The document of some routes, and a page that shows it."""
    content = json.dumps(_document(operations)).encode()

    async def openapi(_: Request) -> Response:
        return Response(content, media_type=JSON)

    async def docs(_: Request) -> Response:
        # The page loads its script and style from a public network; /openapi.json needs none.
        return HTMLResponse(_PAGE)

    yield Route("/openapi.json", openapi)
    yield Route("/docs", docs)


def _document(operations: Iterable[Operation]) -> Schema:
    schemas = _Schemas()
    paths: dict[str, Schema] = {}
    for operation in operations:
        described = schemas.describe(operation)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "opserve",
            "version": "1",
            "summary": "Convolution-backward operators on virtual devices, "
            "in two phases or in one call.",
        },
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY_SCHEMES},
        "security": [{name: []} for name in _SECURITY_SCHEMES],
    }


class _Schemas:
    """The components of the document, which grow as operations are described."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def describe(self, operation: Operation) -> Schema:
        """One operation of the document."""
        described: Schema = {
            "operationId": operation.name,
            "summary": operation.summary,
            "parameters": self._parameters(operation),
            "responses": self._answers(operation) | self._refusals(),
        }
        if content := self._content(operation):
            described["requestBody"] = {"content": content}
        return described

    def _parameters(self, operation: Operation) -> list[Schema]:
        in_path = [
            {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
            for name in path_names(operation.path)
        ]
        in_query = [
            {"name": name, "in": "query", "schema": schema}
            for name, schema in _properties(operation.query).items()
        ]
        in_header = [
            {"name": name, "in": "header", "schema": _NAME}
            for name in (*operation.headers, "X-Request-Id")
        ]
        return in_path + in_query + in_header

    def _content(self, operation: Operation) -> Schema:
        if operation.takes == OCTETS:
            return {OCTETS: {"schema": _BYTES}}
        if operation.body is None:
            return {}
        schema = self._reference(operation.body)
        if operation.takes == MULTIPART:
            parts = {"args": schema, "tensors": _BYTES}
            schema = {"type": "object", "properties": parts}
        return {operation.takes: {"schema": schema}}

    def _answers(self, operation: Operation) -> Schema:
        told = {str(operation.status.value): self._answer(operation)}
        if operation.accepted is None:
            return told
        status = HTTPStatus.ACCEPTED
        waits = replace(operation, status=status, answer=operation.accepted)
        return told | {str(status.value): self._answer(waits)}

    def _answer(self, operation: Operation) -> Schema:
        answer: Schema = {"description": operation.status.phrase}
        if operation.answer is bytes:
            return answer | {"content": {OCTETS: {"schema": _BYTES}}}
        if operation.answer is not None:
            schema = self._reference(operation.answer)
            return answer | {"content": {operation.gives: {"schema": schema}}}
        return answer

    def _refusals(self) -> Schema:
        content = {PROBLEM_JSON: {"schema": self._reference(Problem)}}
        return {
            str(row.status.value): {"description": row.status.phrase, "content": content}
            for row in ERRORS.values()
        }

    def _reference(self, model: Any) -> Schema:  # noqa: ANN401  # a type made at run time
        schema = TypeAdapter(model).json_schema(ref_template=_REFERENCE)
        self.components.update(schema.pop("$defs", {}))
        if "title" not in schema:
            return schema
        self.components[schema["title"]] = schema
        return {"$ref": _REFERENCE.format(model=schema["title"])}


def _properties(model: type[BaseModel] | None) -> dict[str, Schema]:
    return {} if model is None else model.model_json_schema()["properties"]


def _path_schema(name: str) -> Schema:
    return _NAME if name in TEXTS else _HANDLE
