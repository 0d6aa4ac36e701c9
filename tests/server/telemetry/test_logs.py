"""Lines of the log: fields of a call, its level, and one line for any text."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from opserve.v1.memory_service_pb2 import FreeRequest
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.observations import (
    CALL,
    Call,
    CallEnded,
    concerns_operator,
    concerns_session,
)
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.guard import UNAUTHENTICATED
from opserve_server.settings import LogFormat
from opserve_server.telemetry.logs import JsonLines, TextLines, log_observation, log_to_stderr
from server.recording import SESSION
from server.telemetry.conftest import Apis

FORGED = 'x\n{"level": "ERROR", "message": "forged"}\r\x1b[31m\x00\u2028'


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log of the service at every level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("opserve_server")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_a_call_is_one_line_at_debug_with_what_is_known_of_it(
    apis: Apis, lines: io.StringIO
) -> None:
    metadata = (("x-request-id", "mine-1"),)
    await MemoryServiceStub(apis.grpc).Free(FreeRequest(session=SESSION), metadata=metadata)
    await apis.all_ended(calls=1)
    (line,) = read(lines)
    assert line["level"] == "DEBUG"
    assert line["message"].startswith("Free: OK in ")
    assert (line["request_id"], line["api"]) == ("mine-1", "grpc")


async def test_a_refusal_is_a_line_at_info_by_every_api(apis: Apis, lines: io.StringIO) -> None:
    status = Status.ACL_ERROR_RT_PARAM_INVALID
    message = "x does not accept 1; it accepts 2"
    apis.service.error = InvalidArgument(status, message, parameter="x", given=1, allowed=2)
    with pytest.raises(grpc.aio.AioRpcError):
        await MemoryServiceStub(apis.grpc).Free(FreeRequest(session=SESSION))
    await apis.all_ended(calls=1)
    await apis.rest.delete(f"/v1/sessions/{SESSION}/buffers/1")
    await apis.rest.post("/opserve.v1.MemoryService/Free", json={"session": SESSION})
    logged = read(lines)
    outcomes = {"grpc": "INVALID_ARGUMENT", "rest": "400", "connect": "invalid_argument"}
    assert [line["api"] for line in logged] == list(outcomes)
    for line, outcome in zip(logged, outcomes.values(), strict=True):
        assert line["level"] == "INFO"
        assert line["message"].startswith(f"Free: {outcome} in ")
        assert line["message"].endswith(message)


async def test_a_fault_of_the_service_is_a_warning_behind_its_traceback(
    apis: Apis, lines: io.StringIO
) -> None:
    apis.service.error = RuntimeError("planted")
    response = await apis.rest.delete(f"/v1/sessions/{SESSION}/buffers/1")
    error, warning = read(lines)
    assert "planted" in error["traceback"]
    assert (error["level"], warning["level"]) == ("ERROR", "WARNING")
    assert error["request_id"] == warning["request_id"] == response.headers["x-request-id"]
    assert "planted" not in warning["message"]


async def test_no_text_of_a_client_begins_a_line(apis: Apis, lines: io.StringIO) -> None:
    await apis.rest.get("/v1/operators", params={FORGED: FORGED})
    await apis.rest.get(f"/{FORGED.encode().hex()}", headers={"X-Request-Id": "a\tb"})
    status = Status.ACL_ERROR_RT_PARAM_INVALID
    apis.service.error = InvalidArgument(
        status, FORGED, parameter=FORGED, given=FORGED, allowed=FORGED
    )
    await apis.rest.delete(f"/v1/sessions/{SESSION}/buffers/1")
    logged = read(lines)
    assert len(logged) == 3
    assert all(line["message"] != "forged" for line in logged)
    text = lines.getvalue()
    assert not [letter for letter in text if letter != "\n" and not " " <= letter <= "~"]


@pytest.mark.parametrize("outcome", ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "503"])
@pytest.mark.parametrize(
    ("principal", "level"), [(None, "DEBUG"), (UNAUTHENTICATED, "DEBUG"), (LOCAL, "INFO")]
)
def test_a_refused_unauthenticated_caller_writes_no_line_at_info(
    lines: io.StringIO, principal: Principal | None, level: str, outcome: str
) -> None:
    call = Call(api="grpc", method="Check", request_id="1", headers={})
    call.principal, call.outcome, call.failure = principal, outcome, "refused"
    log_observation(CallEnded(call=call, seconds=0.0))
    (line,) = read(lines)
    assert line["level"] == level


def test_a_session_is_logged_by_the_start_of_its_name_alone() -> None:
    name = "0123456789abcdef" * 2
    token = CALL.set(Call(api="rest", method="Execute", request_id="r", headers={}))
    concerns_session(name=name, device="ascend910b-0")
    concerns_operator("im2col_backward")
    line = JsonLines().format(logging.makeLogRecord({"msg": "said", "levelname": "INFO"}))
    CALL.reset(token)
    logged = json.loads(line)
    assert logged["session"] == "01234567"
    assert (logged["device"], logged["operator"]) == ("ascend910b-0", "im2col_backward")
    assert name not in line


def test_the_process_logs_lines_of_json_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(root, "handlers", [])
    log_to_stderr("INFO", "auto")
    logging.getLogger("alembic.runtime.plugins").info("setup plugin")
    logging.getLogger("opserve_server").info(FORGED)
    root.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == FORGED


def test_a_disconnected_client_logs_nothing_and_wrong_arguments_stop_no_other_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(root, "handlers", [])
    log_to_stderr("INFO", "auto")
    for name in ("grpc._cython.cygrpc", "opserve_server"):
        logging.getLogger(name).error("ExecuteBatchError raised in core")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["logger"] == "opserve_server"
    logging.getLogger("grpc._cython.cygrpc").error("a %d", "b")
    root.setLevel(level)


@pytest.mark.parametrize(
    ("form", "at_terminal", "formatter"),
    [
        ("auto", True, TextLines),
        ("auto", False, JsonLines),
        ("text", False, TextLines),
        ("json", True, JsonLines),
    ],
)
def test_lines_are_text_on_a_terminal_and_json_elsewhere_unless_a_setting_chooses(
    monkeypatch: pytest.MonkeyPatch,
    form: LogFormat,
    at_terminal: bool,
    formatter: type[logging.Formatter],
) -> None:
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)
    log_to_stderr("INFO", form)
    root.setLevel(level)
    (handler,) = root.handlers
    assert type(handler.formatter) is formatter


def test_a_line_of_text_has_the_call_and_an_indented_traceback_without_control_characters() -> None:
    token = CALL.set(Call(api="rest", method="Execute", request_id="r1", headers={}))
    failure = (ValueError, ValueError(FORGED), None)
    record = logging.makeLogRecord({"msg": FORGED, "levelname": "ERROR", "exc_info": failure})
    first, *others = TextLines().format(record).split("\n")
    CALL.reset(token)
    escaped = r"""x\n{"level": "ERROR", "message": "forged"}\r\x1b[31m\x00\u2028"""
    assert re.fullmatch(r"\d\d:\d\d:\d\d ERROR   (.*)  request_id=r1 api=rest", first)
    assert escaped in first
    assert others
    assert all(line.startswith("    ") for line in others)
    assert all(line.isprintable() for line in others)
