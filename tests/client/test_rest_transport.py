"""Requests and answers of the REST transport, against the routes of the OpenAPI document."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from client.samples import convolution
from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import AllocateRequest, AllocateResponse, FreeRequest
from opserve_client import (
    AclnnError,
    AclrtError,
    CallTimedOut,
    Client,
    ExecutionFailed,
    OpserveError,
    ServiceUnreachable,
    Session,
)
from opserve_client.transports import RestTransport

OPENED = {"session": "5e55", "device": {"name": "d0"}, "lease_s": 30.0}
Answer = Callable[[httpx2.Request], httpx2.Response]


class Recorder:
    """Answers opening and closing by itself, everything else by `answer`; keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []
        self.answer: Answer = lambda _: httpx2.Response(204)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if (request.method, request.url.path) == ("POST", "/v1/sessions"):
            return httpx2.Response(201, json=OPENED)
        if (request.method, request.url.path) == ("DELETE", "/v1/sessions/5e55"):
            return httpx2.Response(204)
        request.read()
        self.requests.append(request)
        return self.answer(request)


def session_over(recorder: Recorder) -> Session:
    http = httpx2.Client(transport=httpx2.MockTransport(recorder), base_url="http://service")
    return Client(transport=RestTransport("http://service", http=http)).open_session()


ANSWERS: dict[str, Any] = {
    "POST /v1/sessions/5e55/buffers": {"buffer": 1, "size_bytes": 8},
    "POST /v1/sessions/5e55/streams": {"stream": 1},
    "POST /v1/sessions/5e55/events": {"event": 1},
    "GET /v1/sessions/5e55/streams/0": {"complete": True},
    "GET /v1/sessions/5e55/events/1": {"complete": False},
    "GET /v1/sessions/5e55/events/1:elapsedTime?end=1": {"elapsed_ms": 1.5},
    "PUT /v1/sessions/5e55/buffers/1/content?offset=2": {"size_bytes": 3},
}


def line(request: httpx2.Request) -> str:
    return f"{request.method} {request.url.raw_path.decode()}"


ROOT = "/v1/sessions/5e55"
CALLS: list[tuple[str, dict[str, Any] | None]] = [
    (f"POST {ROOT}/buffers", {"size_bytes": 8, "buffer": 1}),
    (f"POST {ROOT}/streams", {"stream": 1}),
    (f"POST {ROOT}/events", {"event": 1}),
    (f"POST {ROOT}/buffers/1:fill", {"offset": 1, "size_bytes": 2}),
    (
        f"POST {ROOT}/buffers/1:copy",
        {"source": 1, "source_offset": 4, "size_bytes": 4},
    ),
    (f"PUT {ROOT}/buffers/1/content?offset=2", None),
    (f"POST {ROOT}/streams/0:setFailureMode", {"mode": "STOP"}),
    (f"POST {ROOT}/streams/1:waitEvent", {"event": 1}),
    (f"POST {ROOT}/streams/1:synchronize", {"timeout_ms": 9}),
    (f"POST {ROOT}/events/1:record", {"stream": 1}),
    (f"GET {ROOT}/streams/0", None),
    (f"GET {ROOT}/events/1", None),
    (f"GET {ROOT}/events/1:elapsedTime?end=1", None),
    (f"POST {ROOT}/events/1:synchronize", {}),
    (f"DELETE {ROOT}/events/1", None),
    (f"DELETE {ROOT}/streams/1", None),
    (f"DELETE {ROOT}/buffers/1", None),
    (f"POST {ROOT}:setDeterministicLevel", {"level": "BATCH"}),
]


def test_every_call_takes_its_route() -> None:
    recorder = Recorder()
    recorder.answer = lambda request: (
        httpx2.Response(200, json=ANSWERS[line(request)])
        if line(request) in ANSWERS
        else httpx2.Response(204)
    )
    with session_over(recorder) as session:
        buffer, stream, event = (
            session.allocate(8),
            session.create_stream(),
            session.create_event(),
        )
        buffer.fill(0, offset=1, size_bytes=2)
        buffer.copy_from(buffer, source_offset=4)
        buffer.write(b"abc", offset=2)
        session.default_stream.set_failure_mode("stop")
        stream.wait_event(event)
        stream.synchronize(timeout_ms=9)
        event.record(stream)
        assert session.default_stream.query()
        assert not event.query()
        assert event.elapsed_ms_since(event) == 1.5
        event.synchronize()
        event.destroy()
        stream.destroy()
        buffer.free()
        session.set_deterministic_level("batch")
    sent = [
        (line(request), json.loads(request.content) if request.method == "POST" else None)
        for request in recorder.requests
    ]
    assert sent == CALLS


def test_a_request_id_is_the_idempotency_key_and_not_in_the_body() -> None:
    recorder = Recorder()
    recorder.answer = lambda _: httpx2.Response(201, json={"stream": 1})
    with session_over(recorder) as session:
        session.create_stream()
    assert len(recorder.requests[0].headers["Idempotency-Key"]) == 32


def test_phase_one_has_a_route_for_each_operator() -> None:
    recorder = Recorder()
    recorder.answer = lambda _: httpx2.Response(200, json={"workspace_size": 0, "executor": 1})
    with session_over(recorder) as session:
        tensor = session.tensor(None, (2, 3), "BF16", format="ND")
        session.get_workspace_size(
            convolution(grad_output=tensor, input=None, weight=None, stride=[], bias_sizes=None)
        )
    (request,) = recorder.requests
    assert request.url.path == (
        "/v1/sessions/5e55/operators/aclnnConvolutionBackward:getWorkspaceSize"
    )
    assert json.loads(request.content) == {
        "executor": 1,
        "arguments": {
            "grad_output": {
                "shape": [2, 3],
                "dtype": "BF16",
                "format": "ND",
            },
            "stride": [],
            "padding": [1, 1],
            "dilation": [1, 1],
            "transposed": False,
            "output_padding": [0, 0],
            "groups": 1,
            "output_mask": [True, True, True],
            "cube_math_type": 0,
        },
    }


def test_a_batch_has_the_forms_of_the_contract() -> None:
    recorder = Recorder()
    recorder.answer = lambda _: httpx2.Response(
        200, json={"results": [{"allocate": {"buffer": 1, "size_bytes": 8}}, {}]}
    )
    commands = [
        Command(allocate=AllocateRequest(size_bytes=8)),
        Command(free=FreeRequest(buffer=1)),
    ]
    with session_over(recorder) as session:
        results = session.submit(commands)
    assert json.loads(recorder.requests[0].content) == {
        "commands": [
            {"allocate": {"size_bytes": 8, "buffer": 1}},
            {"free": {"buffer": 1}},
        ]
    }
    freed = CommandResult()
    freed.free.SetInParent()
    made = CommandResult(allocate=AllocateResponse(buffer=1, size_bytes=8))
    assert results == [made, freed]


def test_bytes_are_put_with_their_length_and_got_by_range() -> None:
    recorder = Recorder()
    recorder.answer = lambda request: {
        "POST": httpx2.Response(201, json={"buffer": 1, "size_bytes": 8}),
        "PUT": httpx2.Response(200, json={"size_bytes": 8}),
        "GET": httpx2.Response(206, content=b"cdef"),
    }[request.method]
    with session_over(recorder) as session:
        buffer = session.allocate(8)
        buffer.write(b"abcdefgh")
        assert buffer.read(offset=2, size_bytes=4) == b"cdef"
    _, put, get = recorder.requests
    assert put.content == b"abcdefgh"
    assert put.headers["Content-Length"] == "8"
    assert put.headers["Content-Type"] == "application/octet-stream"
    assert get.headers["Range"] == "bytes=2-5"


PROBLEM = {
    "type": "about:blank",
    "title": "x",
    "status": 400,
    "detail": "groups does not accept 3; it accepts divisors of 8",
    "instance": "/x",
    "code": 161002,
    "reason": "ACLNN_ERR_PARAM_INVALID",
    "parameter": "groups",
    "given": "3",
    "allowed": "divisors of 8",
    "request_id": "r1",
}
FAILED = PROBLEM | {"code": 507015, "executor": 4}


@pytest.mark.parametrize("where", ["call", "write", "read"])
def test_a_problem_becomes_an_exception_with_all_its_members(where: str) -> None:
    recorder = Recorder()
    with session_over(recorder) as session:
        recorder.answer = lambda _: httpx2.Response(201, json={"buffer": 1, "size_bytes": 8})
        buffer = session.allocate(8)
        recorder.answer = lambda _: httpx2.Response(400, json=PROBLEM)
        calls: dict[str, Callable[[], object]] = {
            "call": session.create_stream,
            "write": lambda: buffer.write(b"a"),
            "read": buffer.read,
        }
        with pytest.raises(AclnnError) as raised:
            calls[where]()
    error = raised.value
    assert str(error) == f"161002 ACLNN_ERR_PARAM_INVALID: {PROBLEM['detail']}"
    assert (error.parameter, error.given, error.allowed) == ("groups", "3", "divisors of 8")
    assert error.request_id == "r1"


@pytest.mark.parametrize(
    ("response", "kind", "code"),
    [
        (
            httpx2.Response(500, json=PROBLEM | {"code": 507015, "executor": 4}),
            ExecutionFailed,
            507015,
        ),
        (httpx2.Response(507, json=PROBLEM | {"code": 207001}), AclrtError, 207001),
        (httpx2.Response(502, text="bad gateway"), ServiceUnreachable, 507901),
        (httpx2.Response(404, json={"detail": "Not Found"}), AclrtError, 500000),
        (httpx2.Response(404, json=["Not Found"]), AclrtError, 500000),
        (httpx2.Response(507, json=PROBLEM | {"code": "207001"}), AclrtError, 500000),
        (httpx2.Response(507, text="[" * 100_000), AclrtError, 500000),
        (httpx2.Response(200, text="<html>"), AclrtError, 500000),
        (httpx2.Response(200, json={"event": "seven"}), AclrtError, 500000),
    ],
)
def test_every_kind_of_answer_has_its_exception(
    response: httpx2.Response, kind: type[OpserveError], code: int
) -> None:
    recorder = Recorder()
    recorder.answer = lambda _: response
    with session_over(recorder) as session, pytest.raises(kind) as raised:
        session.default_stream.wait_event(session.create_event())
    assert raised.value.code == code
    assert not isinstance(raised.value, ExecutionFailed) or raised.value.executor == 4


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx2.ConnectError("refused"), ServiceUnreachable),
        (httpx2.ConnectTimeout("slow"), ServiceUnreachable),
        (httpx2.ReadError("reset"), ServiceUnreachable),
        (httpx2.ReadTimeout("slow"), CallTimedOut),
    ],
)
def test_a_broken_connection_has_its_exception(failure: Exception, kind: type[Exception]) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise failure

    recorder = Recorder()
    with session_over(recorder) as session:
        recorder.answer = answer
        with pytest.raises(kind):
            session.default_stream.query()


def test_an_http_address_speaks_rest() -> None:
    expected = r"http://127\.0\.0\.1:1: no connection; .*opserve serve.* \(ConnectError: "
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(ServiceUnreachable, match=expected),
    ):
        client.list_devices()


class Dripping(httpx2.SyncByteStream):
    """An endless answer in pieces that arrive at once; counts the pieces."""

    pieces = 0

    @override
    def __iter__(self) -> Iterator[bytes]:
        while self.pieces < 10**6:
            self.pieces += 1
            yield b" "


def test_the_time_limit_is_for_the_whole_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(100.0, 1.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    dripping = Dripping()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=dripping))
    http = httpx2.Client(transport=transport, base_url="http://service")
    client = Client(transport=RestTransport("http://service", http=http), timeout_s=10.0)
    with pytest.raises(CallTimedOut, match=r"107019 .*ListDevices: the answer took longer than 10"):
        client.list_devices()
    assert dripping.pieces == 11
