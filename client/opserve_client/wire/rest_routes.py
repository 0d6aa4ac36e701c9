"""Requests of the REST routes that stand in for RPCs which stream their requests."""

import json
from dataclasses import dataclass
from secrets import token_hex
from typing import Final
from urllib.parse import quote

from opserve.v1.conformance_service_pb2 import ReportRunRequest, VerifyRequest
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve_client.errors import malformed_answer
from opserve_client.wire.json_messages import Json, MessageT, from_json, to_json

OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"
_CONFORMANCE = "/v1/conformance"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """A request of a route.

    Attributes:
        path: Path, with the query.
        content_type: Media type of the body.
        body: Body.
    """

    path: str
    content_type: str
    body: bytes | memoryview


def content_path(request: ReadRequest | WriteRequest) -> str:
    """Returns the path of a buffer's bytes."""
    return f"/v1/sessions/{quote(request.session, safe='')}/buffers/{request.buffer}/content"


def write_request(request: WriteRequest, data: memoryview) -> RestRequest:
    """Returns the request that uploads bytes into a buffer."""
    path = f"{content_path(request)}?offset={request.offset}"
    return RestRequest(path=path, content_type=OCTETS, body=data)


def verify_request(request: VerifyRequest, data: memoryview) -> RestRequest:
    """Returns the request that uploads an .npz file of outputs: a form of two parts."""
    fields = to_json(request)
    path = f"{_CONFORMANCE}/cases:verify"
    if not request.definition:
        suite, case = (quote(str(fields.pop(name, "")), safe="") for name in ("suite", "case"))
        path = f"{_CONFORMANCE}/suites/{suite}/cases/{case}:verify"
    boundary = token_hex(16)
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="args"\r\n\r\n'
        f"{json.dumps(fields)}\r\n"
        f'--{boundary}\r\nContent-Disposition: form-data; name="tensors"; filename="outputs.npz"'
        f"\r\nContent-Type: {OCTETS}\r\n\r\n"
    ).encode() + b"%s\r\n--%s--\r\n" % (data, boundary.encode())
    content_type = f"multipart/form-data; boundary={boundary}"
    return RestRequest(path=path, content_type=content_type, body=body)


def report_request(request: ReportRunRequest) -> RestRequest:
    """Returns the request that adds a run."""
    body = json.dumps(to_json(request)).encode()
    return RestRequest(path=f"{_CONFORMANCE}/runs:report", content_type=JSON, body=body)


def response_message(body: bytes, message: type[MessageT], *, address: str) -> MessageT:
    """Returns the message of a successful answer.

    Raises:
        AclrtError: 500000, the answer is malformed.
    """
    try:
        members: Json = json.loads(body)
        return from_json(members, message)
    except (ValueError, RecursionError) as error:
        raise malformed_answer(f"{address}: the answer is malformed: {error}") from error
