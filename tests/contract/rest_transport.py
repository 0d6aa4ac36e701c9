"""A transport of the client over REST, so that the contract tests run on the REST API as well."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message import Message
from typing_extensions import override

from opserve.v1.command_service_pb2 import SubmitRequest, SubmitResponse
from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest, WriteResponse
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client.operators import OPERATORS
from opserve_client.transports import AsyncTransport
from opserve_client.wire.chunks import joined
from opserve_client.wire.conformance_methods import REPORT_RUN, ArchiveT
from opserve_client.wire.http_errors import from_connect, from_route
from opserve_client.wire.json_messages import Json, from_json, to_json
from opserve_client.wire.methods import (
    READ,
    RUN,
    WRITE,
    Method,
    RequestT,
    ResponseT,
)
from opserve_client.wire.rest_routes import verify_request
from opserve_client.wire.trace_context import trace_headers
from opserve_server.rest_api.app import ROUTES

OF_A_DEFINITION = {
    "GetInputs": "GetOwnInputs",
    "GetGolden": "GetOwnGolden",
    "SubmitOutputs": "SubmitOwnOutputs",
}
"""Routes of RPCs on a case that the caller defines, which is not in their path."""
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


class RestTransport(AsyncTransport):
    """A connection to the REST API of a service.

    Args:
        address: The API: "http://127.0.0.1:8080".
        http: HTTP client to use instead, such as one for an application in memory.
    """

    def __init__(self, address: str, *, http: httpx2.AsyncClient | None = None) -> None:
        self._address = address
        self._http = http or httpx2.AsyncClient(base_url=address)

    @override
    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        if method.rpc == RUN.rpc:
            return await self._in_json(method, request, timeout_s=timeout_s)
        content = await self._answer(method, request, timeout_s=timeout_s)
        response = from_json(json.loads(content) if content else {}, method.response)
        if isinstance(request, SubmitRequest) and isinstance(response, SubmitResponse):
            name_empty_results(request, response)
        return response

    @override
    async def write(
        self, request: WriteRequest, data: memoryview, *, timeout_s: float
    ) -> WriteResponse:
        place = WriteRequest()
        place.CopyFrom(request)
        place.ClearField("size_bytes")
        content = await self._answer(WRITE, place, content=bytes(data), timeout_s=timeout_s)
        return from_json(json.loads(content), WriteResponse)

    @override
    async def read(self, request: ReadRequest, *, timeout_s: float) -> AsyncIterator[bytes]:
        last = request.offset + request.size_bytes - 1
        headers = {"Range": f"bytes={request.offset}-{last}"}
        place = ReadRequest(session=request.session, buffer=request.buffer)
        yield await self._answer(READ, place, headers=headers, timeout_s=timeout_s)

    @override
    async def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        yield await self._answer(method, request, timeout_s=timeout_s)

    @override
    async def watch(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT]:
        verb, path, _, headers = in_rest(method, request)
        headers |= trace_headers()
        async with self._http.stream(verb, path, headers=headers, timeout=60) as answer:
            if answer.is_error:
                content = await answer.aread()
                raise from_route(answer.status_code, content, address=self._address)
            event = ""
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    yield from_json({event: json.loads(value)}, method.response)

    @override
    async def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        sent = verify_request(request, data)
        answer = await self._http.post(
            sent.path,
            content=bytes(sent.body),
            headers={"content-type": sent.content_type},
            timeout=timeout_s,
        )
        if answer.is_error:
            raise from_route(answer.status_code, answer.content, address=self._address)
        return from_json(answer.json(), VerifyResponse)

    @override
    async def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        return await self.call(REPORT_RUN, joined(messages), timeout_s=timeout_s)

    @override
    async def close(self) -> None:
        await self._http.aclose()

    async def _in_json(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        """A call without a REST route, in JSON over the Connect protocol."""
        headers = {"content-type": "application/json", **trace_headers()}
        body = MessageToJson(request, preserving_proto_field_name=True)
        answer = await self._http.post(
            method.path, content=body, headers=headers, timeout=timeout_s
        )
        if answer.is_error:
            raise from_connect(answer.status_code, answer.content, address=self._address)
        return Parse(answer.content, method.response())

    async def _answer(
        self, method: Method[Any, Any], request: Message, *, timeout_s: float, **sent: Any
    ) -> bytes:
        verb, path, body, headers = in_rest(method, request)
        sent = {"json": body, **sent} if verb in {"PATCH", "POST"} else sent
        headers = {**headers, **trace_headers(), **sent.pop("headers", {})}
        answer = await self._http.request(verb, path, headers=headers, timeout=timeout_s, **sent)
        if answer.is_error:
            raise from_route(answer.status_code, answer.content, address=self._address)
        return answer.content


def in_rest(
    method: Method[Any, Any], request: Message
) -> tuple[str, str, dict[str, Json], dict[str, str]]:
    """Verb, path, body and headers of a call: a route has the name of its RPC."""
    name, fields = method.rpc.rpartition("/")[2], to_json(request)
    if fields.get("definition"):
        name = OF_A_DEFINITION.get(name, name)
    if isinstance(request, GetWorkspaceSizeRequest):
        operator = request.WhichOneof("operator")
        assert operator is not None
        fields["arguments"] = fields.pop(operator)
        name = OPERATORS[operator].schema.CALL
    verb, route = routes()[name.lower()]
    # JSON leaves out defaults, such as the handle 0 of the default stream.
    path = _PARAMETER.sub(lambda place: quote(str(fields.pop(place[1], 0)), safe=""), route)
    key = fields.pop("request_id", None)
    headers = {} if key is None else {"Idempotency-Key": str(key)}
    if fields and verb not in {"PATCH", "POST"}:
        path = f"{path}?{urlencode(fields)}"
    return verb, path, fields, headers


@cache
def routes() -> Mapping[str, tuple[str, str]]:
    """Verb and path of every route by its name in lower case; of phase one, by that of the call."""
    found: dict[str, tuple[str, str]] = {}
    for route in ROUTES:
        (verb,) = (route.methods or set()) - {"HEAD"}
        found[route.name.lower()] = verb, route.path
        call = re.search(r"/operators/(\w+):getWorkspaceSize", route.path)
        if call is not None:
            found[call[1].lower()] = verb, route.path
    return found


def name_empty_results(request: SubmitRequest, response: SubmitResponse) -> None:
    """Sets the empty results of commands, which are {} over REST, to the messages of gRPC."""
    for command, result in zip(request.commands, response.results, strict=False):
        if result.WhichOneof("result") is None:
            getattr(result, command.WhichOneof("command") or "").SetInParent()
