"""Requests and answers over REST: fields in the path, the query and the body."""

import json
import re
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlencode

from google.protobuf.message import Message

from opserve.v1.command_service_pb2 import SubmitRequest, SubmitResponse
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client.errors import malformed_answer
from opserve_client.operators import OPERATORS
from opserve_client.wire.json_messages import Json, from_json, to_json
from opserve_client.wire.methods import Method, RequestT, ResponseT
from opserve_client.wire.trace_context import trace_headers

_PLACE = re.compile(r"\{(\w+)\}")
_WITH_BODY = frozenset({"PATCH", "POST"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """One HTTP request without its content.

    Attributes:
        verb: HTTP verb.
        path: Path, with the query.
        headers: Headers for tracing and retries.
        body: JSON body; None for a verb without a body.
    """

    verb: str
    path: str
    headers: dict[str, str]
    body: dict[str, Json] | None


def rest_request(method: Method[RequestT, ResponseT], request: RequestT) -> RestRequest:
    """Returns the HTTP request of a message."""
    fields = _arguments_form(request) if _is_planning(request) else to_json(request)
    # JSON leaves out defaults, so the handle 0 of the default stream is missing in the fields.
    path = _PLACE.sub(lambda place: quote(str(fields.pop(place[1], 0)), safe=""), method.route)
    key = fields.pop("request_id", None)
    headers = trace_headers()
    if key is not None:
        headers["Idempotency-Key"] = str(key)
    has_body = method.verb in _WITH_BODY
    if fields and not has_body:
        path = f"{path}?{urlencode(fields)}"
    body = fields if has_body else None
    return RestRequest(verb=method.verb, path=path, headers=headers, body=body)


def response_message(
    method: Method[RequestT, ResponseT], request: RequestT, body: bytes
) -> ResponseT:
    """Returns the message of a successful response."""
    try:
        response = from_json(json.loads(body) if body else {}, method.response)
    except ValueError as error:
        raise malformed_answer(f"{method.rpc}: the answer is malformed: {error}") from error
    if isinstance(request, SubmitRequest) and isinstance(response, SubmitResponse):
        _name_empty_results(request, response)
    return response


def _is_planning(request: Message) -> bool:
    return isinstance(request, GetWorkspaceSizeRequest)


def _arguments_form(request: Message) -> dict[str, Json]:
    """Returns the fields of phase one, which has a route for each operator."""
    fields = to_json(request)
    operator = cast("GetWorkspaceSizeRequest", request).WhichOneof("operator")
    assert operator is not None, "a session plans calls of operators only"
    return fields | {
        "arguments": fields.pop(operator),
        "operator_call": OPERATORS[operator].schema.CALL,
    }


def _name_empty_results(request: SubmitRequest, response: SubmitResponse) -> None:
    """Sets the empty results of commands, which are {} over REST, to the empty messages of gRPC."""
    for command, result in zip(request.commands, response.results, strict=False):
        if result.WhichOneof("result") is None:
            name = command.WhichOneof("command")
            assert name is not None, "a command that ran has a name"
            getattr(result, name).SetInParent()
