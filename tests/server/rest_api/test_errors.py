"""Failures over REST: problem+json for each class; unforeseen ones reveal nothing."""

import json
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx2
import pytest

from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import TbeStatus
from opserve_server.core import errors
from opserve_server.core.errors import OpserveError
from opserve_server.rest_api.errors import ERRORS as TABLE
from opserve_server.rest_api.errors import RangeNotSatisfiable
from server.recording import SESSION, RecordingService
from server.rest_api.conftest import BODY_LIMIT
from server.samples import DOMAINS, ERROR_CLASSES, ERROR_IDS, ERRORS, members_of

S = f"/v1/sessions/{SESSION}"
PLAN = f"{S}/operators/aclnnConvolutionBackward:getWorkspaceSize"
STATUSES: dict[type[OpserveError], int] = {
    errors.InvalidArgument: 400,
    errors.HandleNotFound: 404,
    errors.NotSupported: 501,
    errors.WrongState: 409,
    errors.OutOfMemory: 507,
    errors.LimitExceeded: 429,
    errors.CallTooLarge: 413,
    errors.QuotaExceeded: 429,
    errors.TooManyUnknownKeys: 429,
    errors.WaitTimedOut: 504,
    errors.NotAllowed: 403,
    errors.PermissionDenied: 403,
    errors.Unauthenticated: 401,
    errors.Unavailable: 503,
    errors.StoreUnavailable: 503,
    errors.Moved: 421,
    errors.DataCorrupted: 400,
    errors.ExecutionFailed: 500,
    errors.ExecutionAborted: 409,
    errors.DeadlineMissed: 504,
}


def test_every_class_of_errors_has_a_row() -> None:
    assert set(TABLE) == ERROR_CLASSES | {OpserveError, RangeNotSatisfiable}


@pytest.mark.parametrize("error", ERRORS, ids=ERROR_IDS)
async def test_an_error_keeps_its_code_and_words(
    error: OpserveError, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = error
    response = await client.post(f"{S}/streams", headers={"X-Request-Id": "mine-1"})
    assert response.status_code == STATUSES[type(error)]
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "about:blank",
        "title": HTTPStatus(response.status_code).phrase,
        "status": response.status_code,
        "detail": error.message,
        "instance": f"{S}/streams",
        "code": error.status.value,
        "reason": error.status.name,
        "domain": DOMAINS[type(error.status)],
        "parameter": error.parameter,
        "given": error.given,
        "allowed": error.allowed,
        "request_id": "mine-1",
    } | members_of(error)
    later = isinstance(error, errors.LimitExceeded | errors.Unavailable)
    later = later and not isinstance(error, errors.CallTooLarge)
    assert ("retry-after" in response.headers) == later
    scheme = "Bearer" if isinstance(error, errors.Unauthenticated) else None
    assert response.headers.get("www-authenticate") == scheme


async def test_an_unforeseen_error_reveals_nothing(
    client: httpx2.AsyncClient, service: RecordingService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = KeyError("secret")
    response = await client.post(f"{S}/streams")
    assert response.status_code == 500
    request_id = response.headers["x-request-id"]
    message = f"The service failed: report the request id {request_id} to its administrator."
    assert (response.json()["code"], response.json()["detail"]) == (500000, message)
    assert response.json()["reason"] == "ACL_ERROR_INTERNAL_ERROR"
    assert "secret" not in response.text
    (record,) = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == response.headers["x-request-id"]
    assert response.json()["request_id"] == response.headers["x-request-id"]
    assert "secret" in caplog.text


async def test_an_error_in_the_middle_of_an_answer_cuts_it_short(
    client: httpx2.AsyncClient, service: RecordingService, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def read(*_: object, **__: object) -> AsyncIterator[bytes]:
        yield b"first"
        raise KeyError("secret")

    monkeypatch.setattr(service, "read", read)
    with pytest.raises(KeyError):  # which makes the server close the connection
        await client.get(f"{S}/buffers/1/content", headers={"Range": "bytes=0-99"})


async def test_a_failed_command_of_a_batch_is_in_its_result(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = errors.ExecutionFailed("executor: given 4", executor=4)
    response = await client.post(f"{S}:submit", json={"commands": [{"free": {"buffer": 1}}]})
    assert response.status_code == 200
    assert response.json() == {
        "results": [
            {
                "error": {
                    "code": 507015,
                    "reason": "ACL_ERROR_RT_AICORE_EXCEPTION",
                    "domain": "opserve",
                    "message": "executor: given 4",
                    "parameter": "executor",
                    "given": "4",
                    "allowed": "",
                    "executor": 4,
                }
            }
        ]
    }


async def test_a_failed_command_reports_its_family_and_no_long_texts(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    given = "x" * 10_000
    service.error = errors.InvalidArgument(TbeStatus.E60011, given, parameter="p", given=given)
    response = await client.post(f"{S}:submit", json={"commands": [{"free": {"buffer": 1}}]})
    (error,) = (result["error"] for result in response.json()["results"])
    assert (error["domain"], error["code"], error["reason"]) == ("opserve.tbe", 60011, "E60011")
    assert len(response.content) < 2000


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("PATCH", "/v1/devices", 405),
        ("DELETE", f"{S}/buffers/x", 404),
        ("POST", f"{S}/operators/aclnnNothing:getWorkspaceSize", 404),
        ("GET", "/" + "x" * 3000, 400),
        ("GET", f"{S}/streams/" + "9" * 2500, 400),
    ],
)
async def test_where_no_route_fits_the_answer_is_a_problem(
    method: str, path: str, status: int, client: httpx2.AsyncClient
) -> None:
    response = await client.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.json()["status"], response.json()["code"]) == (status, 100000)
    assert "x-request-id" in response.headers
    assert len(response.content) < 4096


@pytest.mark.parametrize(
    ("path", "body", "parameter"),
    [
        ("/streams", "{", "body"),
        ("/streams", "[]", "body"),
        ("/streams", '"x"', "body"),
        ("/streams", "\xff", "body"),
        ("/streams", '{"stream": "1"}', "stream"),
        ("/streams", '{"stream": true}', "stream"),
        ("/streams", '{"stream": 1.0}', "stream"),
        ("/streams", '{"stream": 1e400}', "stream"),
        ("/streams", '{"stream": 9223372036854775808}', "stream"),
        ("/streams", '{"steam": 1}', "steam"),
        ("/streams/1:setFailureMode", '{"mode": "MAYBE"}', "mode"),
        ("/operators/aclnnIm2colBackward:getWorkspaceSize", '{"arguments": []}', "arguments"),
        (
            "/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"arguments": {"out": {"dtype": "FLOAT8"}}}',
            "arguments.out.dtype",
        ),
        (
            "/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"arguments": {"out": {"shape": [1, "2"]}}}',
            "arguments.out.shape.1",
        ),
        (
            "/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"arguments": {"out": {"data": []}}}',
            "arguments.out.data",
        ),
        (
            "/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"arguments": {"stride": [1, 1180591620717411303424]}}',
            "arguments.stride.1",
        ),
        (":submit", '{"commands": [{}]}', "commands.0"),
        (":submit", '{"commands": [{"free": null}]}', "commands.0"),
        (":submit", '{"commands": [{"free": {}, "fill": {}}]}', "commands.0"),
        (":submit", '{"commands": [{"flee": {}}]}', "commands.0.flee"),
        (":submit", '{"commands": [{"write": {"data": "AA$AA"}}]}', "commands.0.write.data"),
        (":submit", '{"commands": [{"write": {"data": [1]}}]}', "commands.0.write.data"),
        (
            ":submit",
            '{"commands": [{"get_workspace_size": {}}]}',
            "commands.0.get_workspace_size.operator",
        ),
        (
            ":submit",
            json.dumps({"commands": [{"get_workspace_size": {name: {} for name in OPERATORS}}]}),
            "commands.0.get_workspace_size.operator",
        ),
        (":setDeterministicLevel", "{}", "level"),
        (":setDeterministicLevel", '{"level": "LOW"}', "level"),
    ],
)
async def test_a_body_of_another_form_is_refused_by_name(
    path: str,
    body: str,
    parameter: str,
    client: httpx2.AsyncClient,
    service: RecordingService,
) -> None:
    response = await client.post(
        S + path, content=body.encode("latin-1"), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.json()["code"], response.json()["parameter"]) == (100000, parameter)
    assert not service.asked
    assert not service.others


@pytest.mark.parametrize(
    ("path", "body", "allowed"),
    [
        (f"{S}/streams", '{"strem": 1}', "the fields stream; did you mean stream?"),
        ("/v1/sessions", '{"profile": 1}', "a string"),
        ("/v1/sessions", '{"lease_s": "1"}', "a number"),
        ("/v1/sessions", "[]", "an object"),
        ("/v1/sessions", "{", "a JSON object"),
        (f"{S}/streams", '{"stream": 1.5}', "an integer"),
        (f"{S}/streams", '{"stream": 9223372036854775808}', "at most 9223372036854775807"),
        (f"{S}/streams/1:setFailureMode", '{"mode": "MAYBE"}', "one of CONTINUE, STOP"),
        (f"{S}:setDeterministicLevel", "{}", "a value: it has no default"),
        (f"{S}:submit", '{"commands": {}}', "an array"),
        (f"{S}:submit", '{"commands": [{"write": {"data": 1}}]}', "base64"),
        (
            f"{S}:submit",
            '{"commands": [{"free": {"handle": 1}}]}',
            "the fields buffer",
        ),
        (
            f"{S}/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"stride": [1, 1]}',
            "the fields executor, arguments; stride belongs inside arguments",
        ),
        (
            f"{S}/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"strides": [1, 1]}',
            "the fields executor, arguments",
        ),
        (
            f"{S}/operators/aclnnConvolutionBackward:getWorkspaceSize",
            '{"arguments": {"transposed": 1}}',
            "true or false",
        ),
        (
            f"{S}/operators/aclnnIm2colBackward:getWorkspaceSize",
            '{"arguments": {"out": {"data": []}}}',
            "the fields shape, dtype, format, strides, offset, storage_shape, buffer",
        ),
    ],
)
async def test_allowed_values_are_stated_in_words_of_the_service(
    path: str, body: str, allowed: str, client: httpx2.AsyncClient
) -> None:
    response = await client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    problem = response.json()
    assert problem["allowed"] == allowed
    given = problem["given"]
    fault = "is missing" if given == "nothing" else f"does not accept {given}"
    sentence = f"{problem['parameter']} {fault}; it accepts {allowed}"
    assert problem["detail"] == (sentence if sentence.endswith("?") else f"{sentence}.")


async def test_every_fault_of_a_form_has_a_distinct_message(client: httpx2.AsyncClient) -> None:
    faults: list[object] = [None, True, 1, 1.5, 2**70, -(2**70), "x", [], {}, [None], {"x": 1}]
    document: Any = (await client.get("/openapi.json")).json()
    for name in document["components"]["schemas"]["Submit"]["properties"]:
        for fault in faults:
            body = {name: [fault]}
            response = await client.post(f"{S}:submit", json=body)
            assert "a value of its schema" not in response.text, body
    for command, reference in document["components"]["schemas"]["Command"]["properties"].items():
        model = reference["anyOf"][0]["$ref"].rpartition("/")[2]
        for field in document["components"]["schemas"][model]["properties"]:
            for fault in faults:
                body = {"commands": [{command: {field: fault}}]}
                response = await client.post(f"{S}:submit", json=body)
                assert response.status_code in {200, 400}, response.text
                assert "Input should" not in response.text, body
                assert "a value of its schema" not in response.text, body


async def test_a_deep_document_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        PLAN, content=b"[" * 8000, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_is_not_said_to_be_json_is_refused(
    kind: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.post(f"{S}/streams", content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 400
    assert response.json()["parameter"] == "Content-Type"
    assert not service.asked


def json_of(size: int) -> bytes:
    return json.dumps({"stream": 1}).encode().ljust(size)


@pytest.mark.parametrize("sending", ["announced", "chunked"])
@pytest.mark.parametrize("excess", [0, 1])
async def test_a_body_is_read_up_to_its_limit(
    excess: int, sending: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    document = json_of(BODY_LIMIT + excess)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(document), 1000):
            yield document[start : start + 1000]

    content: Any = chunks() if sending == "chunked" else document
    response = await client.post(
        f"{S}/streams", content=content, headers={"Content-Type": "application/json"}
    )
    assert ("content-length" in response.request.headers) == (sending == "announced")
    if not excess:
        assert response.status_code == 201
        return
    assert response.status_code == 413
    assert (response.json()["code"], response.json()["reason"]) == (
        207012,
        "ACL_ERROR_RT_OVER_LIMIT",
    )
    assert not service.asked


async def test_a_body_that_announces_too_much_is_not_read(client: httpx2.AsyncClient) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        sent += 1000
        yield b" " * 1000

    response = await client.post(
        f"{S}/streams",
        content=chunks(),
        headers={"Content-Type": "application/json", "Content-Length": str(BODY_LIMIT + 1)},
    )
    assert response.status_code == 413
    assert sent == 0


async def test_an_endless_body_is_read_no_further_than_its_limit(
    client: httpx2.AsyncClient,
) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1000
            yield b" " * 1000

    response = await client.post(
        f"{S}/streams", content=chunks(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413
    assert sent <= BODY_LIMIT + 2000


@pytest.mark.parametrize(
    ("given", "answered"),
    [("mine-1", "mine-1"), ("two words", None), ("x" * 129, None), ("", None)],
)
async def test_every_answer_has_a_request_id(
    given: str, answered: str | None, client: httpx2.AsyncClient
) -> None:
    for path in ("/livez", "/v1/devices", "/v1/nothing"):
        response = await client.get(path, headers={"X-Request-Id": given})
        found = response.headers["x-request-id"]
        assert found == answered if answered else re.fullmatch("[0-9a-f]{32}", found)
