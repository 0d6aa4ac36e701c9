"""Every command reaches the core unchanged, and so does its answer the client."""

import base64
import re
from dataclasses import asdict, fields, is_dataclass
from typing import Any, cast, get_args

import httpx2
import pytest

from opserve_kernels.operator import Operator
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType, Format, Tensor
from opserve_server.core.commands import Command
from opserve_server.core.service import DeterministicLevel
from opserve_server.core.session_request import ANY_DEVICE
from opserve_server.version import VERSION
from server.core import every_command as core
from server.recording import (
    ASKED,
    DEVICE,
    ENTRIES,
    LISTED,
    RESULTS,
    SERVICES,
    SESSION,
    SHARED_MEMORY,
    SHARED_MEMORY_TOKEN,
    WAITING,
    RecordingService,
)
from server.samples import COMMANDS, OPERATOR_CALLS

S = f"/v1/sessions/{SESSION}"
CONV = "aclnnConvolutionBackward"
ROUTES: dict[type[Command], tuple[str, str, int]] = {
    core.Allocate: ("POST", "/buffers", 201),
    core.Free: ("DELETE", "/buffers/3", 204),
    core.Fill: ("POST", "/buffers/3:fill", 204),
    core.Copy: ("POST", "/buffers/4:copy", 204),
    core.GetWorkspaceSize: ("POST", f"/operators/{CONV}:getWorkspaceSize", 200),
    core.Execute: ("POST", "/executors/2:execute", 204),
    core.SetRepeatable: ("POST", "/executors/2:setRepeatable", 204),
    core.SetTensorBuffer: ("POST", "/executors/2:setTensorBuffer", 204),
    core.DestroyExecutor: ("DELETE", "/executors/2", 204),
    core.CreateStream: ("POST", "/streams", 201),
    core.DestroyStream: ("DELETE", "/streams/1", 204),
    core.SetFailureMode: ("POST", "/streams/1:setFailureMode", 204),
    core.SynchronizeStream: ("POST", "/streams/1:synchronize", 204),
    core.AbortStream: ("POST", "/streams/1:abort", 204),
    core.QueryStream: ("GET", "/streams/1", 200),
    core.CreateEvent: ("POST", "/events", 201),
    core.DestroyEvent: ("DELETE", "/events/2", 204),
    core.RecordEvent: ("POST", "/events/2:record", 204),
    core.StreamWaitEvent: ("POST", "/streams/1:waitEvent", 204),
    core.QueryEvent: ("GET", "/events/2", 200),
    core.SynchronizeEvent: ("POST", "/events/2:synchronize", 204),
    core.EventElapsedTime: ("GET", "/events/2:elapsedTime?end=3", 200),
}
"""Method, path and status of each command, as the public surface has them."""
IN_PATH: dict[type[Command], list[str]] = {
    core.Free: ["buffer"],
    core.Fill: ["buffer"],
    core.Copy: ["destination"],
    core.StreamWaitEvent: ["stream"],
    core.SetFailureMode: ["stream"],
    core.SynchronizeStream: ["stream"],
    core.AbortStream: ["stream"],
    core.RecordEvent: ["event"],
    core.SynchronizeEvent: ["event"],
}


def snake(command: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower()


def wire(value: object) -> Any:  # JSON
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [wire(item) for item in cast("tuple[object, ...]", value)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {f.name: wire(getattr(value, f.name)) for f in fields(value)}
        case _:
            return value


def body(command: Command) -> dict[str, Any]:
    """All fields of a command as JSON has them."""
    if isinstance(command, core.GetWorkspaceSize):
        return {"executor": command.executor, "arguments": wire(command.arguments)}
    values: dict[str, Any] = wire(command)
    return values


def body_beside_path(command: Command) -> dict[str, Any] | None:
    """The fields that a command's route takes from the body."""
    method, path, _ = ROUTES[type(command)]
    if method == "GET":
        return None
    in_path = IN_PATH.get(type(command), ["executor"] if "/executors/" in path else [])
    in_path = ["stream"] if path == "/streams/1" else in_path
    in_path = ["event"] if path == "/events/2" else in_path
    return {name: value for name, value in body(command).items() if name not in in_path}


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if not isinstance(command, core.Write | core.Read)],
    ids=lambda command: type(command).__name__,
)
async def test_a_route_reaches_the_core_as_its_command(
    command: Command, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    method, path, status = ROUTES[type(command)]
    given = body_beside_path(command)
    response = await client.request(
        method, S + path, json=given or None, headers={"Idempotency-Key": "once"}
    )
    assert response.status_code == status, response.text
    assert service.asked == [(SESSION, "once", [command])]
    assert service.command == command
    expected = RESULTS.get(type(command))
    if expected is None:
        assert response.content == b""
    else:
        assert response.json() == wire(expected)


def test_every_command_has_a_route() -> None:
    assert ROUTES.keys() | {core.Write, core.Read} == set(get_args(Command))


def in_batch(command: Command) -> dict[str, Any]:
    if isinstance(command, core.GetWorkspaceSize):
        given = {"executor": command.executor, command.operator: wire(command.arguments)}
        return {"get_workspace_size": given}
    return {snake(type(command)): body(command)}


async def test_a_batch_reaches_the_core_in_order_and_is_answered_in_order(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.post(
        f"{S}:submit",
        json={"commands": [in_batch(command) for command in COMMANDS]},
        headers={"Idempotency-Key": "once"},
    )
    assert response.status_code == 200, response.text
    assert service.asked == [(SESSION, "once", COMMANDS)]
    results = response.json()["results"]
    assert [list(result) for result in results] == [[snake(type(c))] for c in COMMANDS]
    allocated = {"buffer": 7, "size_bytes": 64, "slab": 0, "offset": 0}
    assert results[0] == {"allocate": allocated}
    assert results[1] == {"free": {}}
    assert base64.b64decode(results[4]["read"]["data"], validate=True) == b"\xfb\xff\xfe"


@pytest.mark.parametrize("command", OPERATOR_CALLS, ids=lambda command: command.operator)
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "in a batch"])
async def test_arguments_keep_their_parts_and_what_is_zero_or_empty(
    command: core.GetWorkspaceSize,
    client: httpx2.AsyncClient,
    service: RecordingService,
    *,
    batched: bool,
) -> None:
    if batched:
        response = await client.post(f"{S}:submit", json={"commands": [in_batch(command)]})
    else:
        path = f"{S}/operators/{OPERATORS[command.operator].call}:getWorkspaceSize"
        response = await client.post(path, json=body(command))
    assert response.status_code == 200, response.text
    assert service.command == command


@pytest.mark.parametrize("dtype", ["BF16", "ACL_BF16", 27])
@pytest.mark.parametrize("layout", ["NCHW", "ACL_FORMAT_NCHW", 0])
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "in a batch"])
async def test_dtypes_and_formats_have_the_vendors_spelling_and_number(
    client: httpx2.AsyncClient,
    service: RecordingService,
    dtype: str | int,
    layout: str | int,
    *,
    batched: bool,
) -> None:
    arguments = {"input": {"shape": [1, 2, 3, 4], "dtype": dtype, "format": layout}}
    if batched:
        commands = [{"get_workspace_size": {"convolution_backward": arguments}}]
        response = await client.post(f"{S}:submit", json={"commands": commands})
    else:
        path = f"{S}/operators/aclnnConvolutionBackward:getWorkspaceSize"
        response = await client.post(path, json={"arguments": arguments})
    assert response.status_code == 200, response.text
    assert isinstance(service.command, core.GetWorkspaceSize)
    tensor = service.command.arguments.input
    assert tensor == Tensor(shape=(1, 2, 3, 4), dtype=DataType.BF16, format=Format.NCHW)


@pytest.mark.parametrize("member", [{"dtype": 5}, {"dtype": True}, {"format": "ACL_FORMAT_ABC"}])
async def test_unknown_spellings_are_refused_by_name(
    client: httpx2.AsyncClient, member: dict[str, object]
) -> None:
    path = f"{S}/operators/aclnnConvolutionBackward:getWorkspaceSize"
    response = await client.post(path, json={"arguments": {"input": {"shape": [1], **member}}})
    (name,) = member
    assert response.status_code == 400, response.text
    assert response.json()["parameter"] == f"arguments.input.{name}"


@pytest.mark.parametrize(
    ("para_dict", "parameter", "allowed"),
    [
        ({"strides": [1, 1.5]}, "arguments.para_dict.strides.1", "an integer"),
        ({"stride": [1, 1]}, "arguments.para_dict.stride", "the fields strides, padding"),
        ({"group_dict": 1}, "arguments.para_dict.group_dict", "an object"),
        ({"group_dict": {"group": 1}}, "arguments.para_dict.group_dict.group", "the fields g_ext"),
        ({"res_dtype": 1}, "arguments.para_dict.res_dtype", "a string"),
        ([], "arguments.para_dict", "an object"),
    ],
)
async def test_parts_of_another_form_are_refused_by_their_path(
    para_dict: object, parameter: str, allowed: str, client: httpx2.AsyncClient
) -> None:
    response = await client.post(
        f"{S}/operators/conv2d_backprop_input:getWorkspaceSize",
        json={"arguments": {"para_dict": para_dict}},
    )
    assert (response.status_code, response.json()["code"]) == (400, 100000)
    assert response.json()["parameter"] == parameter
    assert response.json()["allowed"].startswith(allowed)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
@pytest.mark.parametrize("given", [None, {}, {"arguments": {}}], ids=str)
async def test_absent_arguments_reach_the_core_as_null_pointers(
    operator: Operator[object],
    given: dict[str, object] | None,
    client: httpx2.AsyncClient,
    service: RecordingService,
) -> None:
    response = await client.post(f"{S}/operators/{operator.call}:getWorkspaceSize", json=given)
    assert response.status_code == 200, response.text
    assert service.command == core.GetWorkspaceSize(
        operator=operator.name, arguments=operator.schema()
    )


async def test_null_arguments_reach_the_core_as_null_pointers(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    given = {"arguments": {"grad_output": None, "stride": None, "groups": None}}
    await client.post(f"{S}/operators/{CONV}:getWorkspaceSize", json=given)
    assert isinstance(service.command, core.GetWorkspaceSize)
    assert service.command.arguments == type(service.command.arguments)()


@pytest.mark.parametrize("command", list(ROUTES))
async def test_no_absent_field_is_the_frameworks_to_refuse(
    command: type[Command], client: httpx2.AsyncClient, service: RecordingService
) -> None:
    method, path, status = ROUTES[command]
    response = await client.request(method, S + path.partition("?")[0])
    assert response.status_code == status, response.text
    assert len(service.asked) == 1


async def test_sessions_reach_the_core(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    listed = await client.get("/v1/devices")
    once = {"Idempotency-Key": "once"}
    opened = await client.post("/v1/sessions", json=asdict(ASKED), headers=once)
    found = await client.get(S)
    renewed = await client.post(f"{S}:keepAlive")
    level = await client.post(f"{S}:setDeterministicLevel", json={"level": "BATCH"})
    closed = await client.delete(S)
    device = {f.name: wire(getattr(DEVICE, f.name)) for f in fields(DEVICE)}
    assert listed.json() == {"devices": [device], "version": VERSION}
    assert opened.status_code == 201
    assert opened.json() == {
        "session": SESSION,
        "device": device,
        "lease_s": 2.5,
        "exclusive_left_s": 0.0,
        "accuracy": "direct",
        "documented_rules": "error",
        "local_lane": SHARED_MEMORY,
        "local_lane_token": SHARED_MEMORY_TOKEN,
        "services": [asdict(one) for one in SERVICES],
    }
    last = {"last_buffer": 7, "last_executor": 9, "last_stream": 4, "last_event": 5}
    left = {"lease_s": 30.0, "exclusive_left_s": 4.5}
    chosen = {"accuracy": "fast", "documented_rules": "warn"}
    assert found.json() == opened.json() | left | chosen | last
    assert renewed.json() == {"lease_s": 30.0}
    assert (level.status_code, closed.status_code) == (204, 204)
    assert service.others == [
        ("open_session", ASKED, "once"),
        ("get_session", SESSION),
        ("keep_alive", SESSION),
        ("set_deterministic_level", SESSION, DeterministicLevel.BATCH),
        ("close_session", SESSION),
    ]


async def test_a_request_that_waits_is_answered_with_its_position(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    once = {"Idempotency-Key": "once"}
    answer = await client.post(
        "/v1/sessions", json=asdict(ASKED) | {"tell_after_s": 2.0}, headers=once
    )
    listed = await client.get("/v1/waiting")
    assert service.others == [("ask_for_session", ASKED, "once", 2.0)]
    waiting = asdict(WAITING) | {"tags": list(WAITING.tags)}
    assert (answer.status_code, answer.json()) == (
        202,
        {"waiting": waiting, "services": [asdict(one) for one in SERVICES]},
    )
    assert listed.json() == {"waiting": [waiting]}


async def test_sessions_and_waiting_requests_are_listed_and_ended_by_their_public_ids(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    listed = await client.get("/v1/sessions")
    assert listed.json() == {"sessions": [asdict(LISTED)]}
    timeline = await client.get("/v1/sessions:timeline", params={"id": LISTED.id})
    assert len(timeline.json()["streams"][0]["entries"]) == len(ENTRIES)
    body = {"id": LISTED.id, "force": True}
    assert (await client.post("/v1/sessions:release", json=body)).status_code == 204
    cancelled = await client.post("/v1/waiting:cancel", json={"id": WAITING.id})
    assert cancelled.status_code == 204
    assert service.others == [
        ("timeline_of", LISTED.id),
        ("release", LISTED.id, True),
        ("cancel_waiting", WAITING.id),
    ]


async def test_a_session_opens_without_a_body(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    assert (await client.post("/v1/sessions")).status_code == 201
    assert service.others == [("open_session", ANY_DEVICE, "")]
