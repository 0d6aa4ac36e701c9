"""Every RPC over Connect: the answers of the gRPC API, in protobuf and in JSON."""

import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from opserve_server.connect_api.errors import _STATUSES
from opserve_server.connect_api.rpcs import INSTEAD
from opserve_server.core.errors import OpserveError
from opserve_server.grpc_api.errors import ERRORS as TABLE
from opserve_server.grpc_api.errors import details_of, row_of
from opserve_server.rest_api.app import ROUTES
from server.connect_api.frames import framed, parted
from server.entry_points import every_rpc, request_in
from server.recording import SESSION, RecordingService
from server.samples import ERROR_IDS, ERRORS

RPCS = list(every_rpc())
UNARY = [rpc for rpc in RPCS if not (rpc.client_streaming or rpc.server_streaming)]
STREAMS = [rpc for rpc in RPCS if rpc.server_streaming]
UPLOADS = [rpc for rpc in RPCS if rpc.client_streaming]
ALLOCATE, READ, WATCH = (
    f"/opserve.v1.{name}"
    for name in ("MemoryService/Allocate", "MemoryService/Read", "StreamService/WatchStream")
)
ID = {"x-request-id": "of-this-test"}


def path_of(rpc: MethodDescriptor) -> str:
    return f"/{rpc.containing_service.full_name}/{rpc.name}"


def name_of(rpc: MethodDescriptor) -> str:
    return rpc.name


def filled(rpc: MethodDescriptor) -> Message:
    request = request_in(rpc, SESSION)
    kind: Any = GetMessageClass(rpc.input_type)
    return kind() if request is None else request


@pytest.mark.parametrize("rpc", UNARY, ids=name_of)
async def test_a_unary_rpc_has_one_answer_in_both_forms(
    rpc: MethodDescriptor, client: httpx2.AsyncClient
) -> None:
    request, kind = filled(rpc), GetMessageClass(rpc.output_type)
    answers: list[Any] = []
    for form, content in (
        ("proto", request.SerializeToString()),
        ("json", json_format.MessageToJson(request).encode()),
    ):
        headers = {"content-type": f"application/{form}; charset=utf-8", **ID}
        answer = await client.post(path_of(rpc), content=content, headers=headers)
        assert answer.headers["x-request-id"] == "of-this-test"
        sent = f"application/{form}" if answer.status_code == 200 else "application/json"
        assert answer.headers["content-type"] == sent
        if answer.status_code != 200:
            answers.append((answer.status_code, answer.json()["message"]))
        elif form == "proto":
            answers.append(kind.FromString(answer.content))
        else:
            answers.append(json_format.Parse(answer.content, kind()))
    # A failed call has the same error in JSON in both forms.
    assert answers[0] == answers[1]


async def test_a_command_gets_every_field_of_its_json(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    body = {"session": SESSION, "sizeBytes": "64", "buffer": 7, "request_id": "once"}
    answer = await client.post(ALLOCATE, json=body)
    assert answer.json() == {"buffer": 7, "sizeBytes": "64"}
    assert service.asked[0][:2] == (SESSION, "once")
    assert (service.command.size_bytes, service.command.buffer) == (64, 7)  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["proto", "json"])
async def test_bytes_are_read_as_a_stream(
    form: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    (rpc,) = (rpc for rpc in STREAMS if rpc.name == "Read")
    request: Any = GetMessageClass(rpc.input_type)(session=SESSION, buffer=7, size_bytes=2500)
    content = request.SerializeToString()
    if form == "json":
        content = json_format.MessageToJson(request).encode()
    headers = {"content-type": f"application/connect+{form}"}
    answer = await client.post(READ, content=framed(content), headers=headers)
    assert answer.headers["content-type"] == f"application/connect+{form}"
    messages, end = parted(answer.content)
    kind: Any = GetMessageClass(rpc.output_type)
    read = [
        kind.FromString(one) if form == "proto" else json_format.Parse(one, kind())
        for one in messages
    ]
    assert b"".join(one.data for one in read) == service.content[:2500]
    assert all(one.HasField("crc32c") for one in read)
    assert end == {}


async def test_a_watch_is_a_stream(client: httpx2.AsyncClient) -> None:
    headers = {"content-type": "application/connect+json"}
    answer = await client.post(WATCH, content=framed(b'{"stream": 4}'), headers=headers)
    messages, end = parted(answer.content)
    assert [b'"outcome"' in one for one in messages] == [False, True, True]
    assert end == {}


@pytest.mark.parametrize("rpc", UPLOADS, ids=name_of)
async def test_an_rpc_that_streams_its_requests_names_the_route_to_use(
    rpc: MethodDescriptor, client: httpx2.AsyncClient
) -> None:
    routes = {
        f"{verb} {route.path.replace(':int', '')}"
        for route in ROUTES
        for verb in route.methods or ()
    }
    assert INSTEAD[rpc.name] in routes
    answer = await client.post(path_of(rpc), json={})
    assert (answer.status_code, answer.json()["code"]) == (501, "unimplemented")
    assert INSTEAD[rpc.name] in answer.json()["message"]
    headers = {"content-type": "application/connect+proto"}
    answer = await client.post(path_of(rpc), content=framed(b""), headers=headers)
    _, end = parted(answer.content)
    assert (answer.status_code, end["error"]["code"]) == (200, "unimplemented")


def test_the_page_lists_the_rpcs_that_stream_their_requests() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/connect.md").read_text()
    assert {rpc.name for rpc in UPLOADS} == INSTEAD.keys()
    for rpc in UPLOADS:
        assert f"| `{rpc.containing_service.name}/{rpc.name}` | `{INSTEAD[rpc.name]}`" in page
    for rpc in STREAMS:
        assert f"`{rpc.name}`" in page


def test_every_code_of_an_error_has_a_status() -> None:
    assert {row.code for row in TABLE.values()} == _STATUSES.keys()


@pytest.mark.parametrize("error", ERRORS, ids=ERROR_IDS)
async def test_an_error_has_the_code_and_details_of_the_grpc_api(
    error: OpserveError, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = error
    answer = await client.post(ALLOCATE, json={}, headers=ID)
    code = row_of(error).code
    assert answer.status_code == _STATUSES[code]
    assert answer.json()["code"] == code.name.lower()
    details = details_of(error, request_id="of-this-test")
    for sent, detail in zip(answer.json()["details"], details, strict=True):
        assert sent["type"] == detail.DESCRIPTOR.full_name
        assert type(detail).FromString(base64.b64decode(f"{sent['value']}==")) == detail
        assert sent["debug"] == json_format.MessageToDict(detail)
    headers = {"content-type": "application/connect+proto", **ID}
    answer_of_stream = await client.post(READ, content=framed(b""), headers=headers)
    messages, end = parted(answer_of_stream.content)
    assert (answer_of_stream.status_code, messages) == (200, [])
    assert end["error"] == answer.json()
