"""Requests and answers over REST: which field travels in the path, the query or the body."""

import json
import re
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlencode

from google.protobuf.message import Message

from opserve.v1.command_service_pb2 import SubmitRequest, SubmitResponse
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client.errors import incomprehensible
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
        headers: The headers of opserve.
        body: JSON body; None for a verb that has none.
    """

    verb: str
    path: str
    headers: dict[str, str]
    body: dict[str, Json] | None


def rest_request(method: Method[RequestT, ResponseT], request: RequestT) -> RestRequest:
    """The HTTP request that a message becomes."""
    fields = _arguments_form(request) if _is_planning(request) else to_json(request)
    # A handle that is 0, the default stream's, is not in the fields: they leave out defaults.
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
    """The message that the body of a successful response stands for."""
    try:
        response = from_json(json.loads(body) if body else {}, method.response)
    except ValueError as error:
        raise incomprehensible(
            f"{method.rpc}: an answer that is none of opserve's: {error}"
        ) from error
    if isinstance(request, SubmitRequest) and isinstance(response, SubmitResponse):
        _name_empty_results(request, response)
    return response


def _is_planning(request: Message) -> bool:
    return isinstance(request, GetWorkspaceSizeRequest)


def _arguments_form(request: Message) -> dict[str, Json]:
    """Phase one has a route for each operator, and a member for its arguments."""
    fields = to_json(request)
    operator = cast("GetWorkspaceSizeRequest", request).WhichOneof("operator")
    assert operator is not None, "a session plans calls of operators only"
    return fields | {
        "arguments": fields.pop(operator),
        "operator_call": OPERATORS[operator].schema.CALL,
    }


def _name_empty_results(request: SubmitRequest, response: SubmitResponse) -> None:
    """A command without an answer gives {} over REST; over gRPC it gives its empty message."""
    for command, result in zip(request.commands, response.results, strict=False):
        if result.WhichOneof("result") is None:
            name = command.WhichOneof("command")
            assert name is not None, "a command that ran has a name"
            getattr(result, name).SetInParent()
